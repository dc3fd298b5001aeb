"""What a client offers, one module for each kind of thing. Each method is one operation of the REST API."""
