"""From the bytes of an upload to records, whatever they are wrapped in; what the records say is not read here."""
