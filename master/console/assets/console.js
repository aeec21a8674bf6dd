// The script of the console. Pages work without it.
"use strict";

// A link of "zester console --print" has the code in its fragment, which is sent nowhere.
const code = document.getElementById("code");
if (code && location.hash.length > 1) {
  code.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  code.form.submit();
}

// A visible page asks for its parts again every few seconds. A part with the focus, a selection or an open form stays.
const every = 5000;
const staleAfter = 35000;
const live = document.querySelector("[data-testid=live]");
let heard = Date.now();
let tag = "";

function inUse(part) {
  const selection = getSelection();
  return part.contains(document.activeElement) || (!selection.isCollapsed && part.contains(selection.anchorNode));
}

function say(state, text) {
  live.dataset.live = state;
  live.firstElementChild.textContent = text;
}

function replaceParts(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = document.querySelector(`[data-part="${CSS.escape(part.dataset.part)}"]`);
    if (old && !inUse(old) && old.outerHTML !== part.outerHTML) old.replaceWith(document.adoptNode(part));
  }
}

async function refresh() {
  if (document.hidden) return;
  const parts = [...document.querySelectorAll("[data-part]")].map((p) => p.dataset.part);
  if (!parts.length) return;
  const url = new URL(location.href);
  url.searchParams.set("part", parts.join(","));
  try {
    const answer = await fetch(url, { headers: { Accept: "text/html", ...(tag && { "If-None-Match": tag }) }, redirect: "error" });
    if (answer.status === 401) return location.reload();
    if (answer.status === 200) {
      tag = answer.headers.get("Etag") || "";
      replaceParts(await answer.text());
    } else if (answer.status !== 304) {
      throw new Error(answer.status);
    }
    heard = Date.now();
    say("yes", "Live");
  } catch {
    if (Date.now() - heard > staleAfter) say("stale", "Stale since " + new Date(heard).toTimeString().slice(0, 5));
  }
}

if (live) {
  setInterval(refresh, every);
  document.addEventListener("visibilitychange", refresh);
}

// "/" goes to the search, unless the reader types or has switched keys off.
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  if (document.body.dataset.keys === "off" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing) document.activeElement.blur();
  if (event.key !== "/" || typing) return;
  event.preventDefault();
  document.getElementById("q")?.focus();
});
