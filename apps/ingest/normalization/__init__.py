"""What formats share: the many names under which logs and data sets write messages, calls, outcomes."""
