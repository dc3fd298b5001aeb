"""Messages to token ids and back, with the mask of tokens that the policy wrote."""
