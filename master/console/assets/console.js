// The script of the console: a code in the address logs in. Pages work without it.
"use strict";

// A link of "zester console --print" has the code in its fragment, which is sent nowhere.
const code = document.getElementById("code");
if (code && location.hash.length > 1) {
  code.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  code.form.submit();
}
