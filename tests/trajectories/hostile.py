"""Hostile content: it must be shown without being executed, and its size must be bounded."""

import json

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "image": '<img src=x onerror="alert(1)">',
    "svg": "<svg onload=alert(1)><script>alert(2)</script></svg>",
    "page": "<html><body onload=alert(1)><iframe src=javascript:alert(2)></iframe><form action=//evil><input name=q>",
    "link": "[click](javascript:alert(1)) <a href='javascript:alert(1)'>x</a> [d](data:text/html,<script>alert(1)</script>)",
    "breakout": "</pre></div></article></template><script>alert(1)</script><!--",
    "attribute": '" onmouseover="alert(1)" x="',
    "json": json.dumps([{"title": '<img src=x onerror="alert(1)">', "url": "javascript:alert(1)", "snippet": "<b>"}]),
    "table": json.dumps([{"<script>": "</td><script>alert(1)</script>", "b": 1}, {"<script>": "x", "b": 2}]),
    "tree": json.dumps({'"><script>alert(1)</script>': {"</span>": "<svg/onload=alert(1)>"}}),
    "mail": json.dumps({"from": "<script>", "subject": "</dl><script>", "body": "<script>alert(1)</script>"}),
    "patch": "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-<script>\n+<img src=x onerror=alert(1)>",
    "ansi": "\x1b[31m<script>alert(1)</script>\x1b]8;;javascript:alert(1)\x07x\x1b[0m",
    "markdown": "# <script>alert(1)</script>\n\n**<img src=x onerror=alert(1)>**\n\n```<script>\n```\n![x](https://evil/x.png)",
}
HUGE = {
    "one line of 10 MB": "x" * 10_000_000,
    "NUL": "\0" * 200_000,
    "lone surrogates": "\ud800\udfff" * 100_000,
    "1,000 brackets deep": "[" * 1000 + "]" * 1000,
    "900 objects deep": '{"a":' * 900 + "1" + "}" * 900,
    "half an escape sequence": "\x1b[" * 200_000,
    "unclosed comments": "<html>" + "<!--" * 50_000,
    "open elements": "<html>" + "<div>" * 40_000,
    "an object of 50,000 fields": json.dumps({str(i): i for i in range(50_000)}),
    "a table of 10,000 rows": json.dumps([{"a": i, "b": "x"} for i in range(10_000)]),
    "a patch of 1,000,000 lines": "diff --git a b\n" + "+x\n" * 1_000_000,
}
