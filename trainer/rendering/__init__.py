"""Messages to token ids and back, with the mask that says which tokens the policy wrote."""
