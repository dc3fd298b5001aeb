"""`python -m contract` writes the JSON Schemas of docs/schemas/ and the tables of fields in docs/."""

from contract.schemas import main

main()
