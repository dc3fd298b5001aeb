"""The client's resources, one module each. Each method is one operation of the REST API."""
