"""What happens in a workspace, told to servers, e-mail addresses, and Slack."""
