"""Turns the bytes of an upload into records, whatever container they are in; the records themselves aren't interpreted here."""
