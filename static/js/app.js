// The behaviours that every page has. A page's own modules come through its `scripts` block.
import "./requests.js";
import "./keep.js";
import "./keys.js";
import "./key_help.js";
import "./theme.js";
import "./toast.js";
import "./time.js";
import "./copy.js";
import "./dialog.js";
import "./menu.js";
import "./select.js";
import "./rows.js";
import "./tabs.js";
import "./draft.js";
import "./refused.js";
import "./live.js";
import "./chart.js";
