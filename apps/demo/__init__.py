"""A workspace where every page has something true to show. Nothing in it is invented: runs come from the built-in environment,
judgments from rules that are shown as rules, policies from training that happens while one watches."""
