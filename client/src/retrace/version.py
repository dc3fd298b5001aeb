"""The version of this distribution; its metadata is read from here."""

VERSION = "0.1.0"
