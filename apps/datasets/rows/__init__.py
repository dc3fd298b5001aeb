"""How judged runs become rows, streamed: cut out of the stored bytes and spelled as each row type wants it."""
