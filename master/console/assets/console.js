// The script of the console. Pages work without it.
"use strict";

// A link of "zester console --print" has the code in its fragment, which is sent nowhere.
const code = document.getElementById("code");
if (code && location.hash.length > 1) {
  code.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  code.form.submit();
}

// ---- Parts are replaced while one looks on.

const between = 2000; // ms between two requests for parts
const again = 5000; // ms until a request that failed is sent again
const staleAfter = 35000; // ms without a word of the stream
const live = document.querySelector("[data-testid=live]");
const waiting = new Map(); // parts in use, with what would replace them

const partNamed = (name) => document.querySelector(`[data-part="${CSS.escape(name)}"]`);

// A part in use has the focus within it, a selection or a changed field.
function inUse(part) {
  const focused = document.activeElement !== part && part.contains(document.activeElement);
  const selection = getSelection();
  const selected = !selection.isCollapsed && part.contains(selection.anchorNode);
  const changed = [...part.querySelectorAll("input, textarea")].some((field) => field.value !== field.defaultValue);
  return focused || selected || changed;
}

// replace puts a new part in the place of an old one, as far scrolled and with the same tables unfolded.
function replace(old, fresh) {
  waiting.delete(old);
  const folds = fresh.querySelectorAll("details");
  old.querySelectorAll("details").forEach((fold, i) => folds[i] && (folds[i].open = fold.open));
  const boxes = [...old.querySelectorAll(".scroll, .log")].map((box) => [box.scrollLeft, box.scrollTop]);
  const focused = old === document.activeElement;
  old.replaceWith(fresh);
  if (focused) focus(fresh);
  fresh.querySelectorAll(".scroll, .log").forEach((box, i) => boxes[i] && box.scrollTo(...boxes[i]));
}

function focus(part) {
  part.tabIndex = -1;
  part.focus({ preventScroll: true });
}

// offer lets the reader replace a part that is in use.
function offer(old, fresh) {
  const offered = waiting.has(old);
  waiting.set(old, fresh);
  if (offered || !old.matches("section")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn small new";
  button.dataset.testid = "new";
  button.textContent = "New: show";
  button.addEventListener("click", () => {
    const newest = waiting.get(old);
    replace(old, newest);
    focus(newest);
  });
  (old.querySelector(".head") ?? old).append(button);
}

function place(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  for (const part of page.querySelectorAll("[data-part]")) {
    const old = partNamed(part.dataset.part);
    if (!old || (old.outerHTML === part.outerHTML && !waiting.has(old))) continue;
    const fresh = document.adoptNode(part);
    if (inUse(old)) offer(old, fresh);
    else replace(old, fresh);
  }
}

document.addEventListener("focusout", () => setTimeout(() => {
  for (const [old, fresh] of [...waiting]) if (!inUse(old)) replace(old, fresh);
}));

// ---- What changed is heard by one stream a browser.

const shown = {}; // versions of the parts of this page
const due = new Set();
const tags = {};
let heard = Date.now();
let timer = 0;
let asked = 0;

function say(state, text) {
  live.dataset.live = state;
  live.firstElementChild.textContent = text;
}

function schedule(least = 0) {
  if (!due.size || document.hidden || timer) return;
  timer = setTimeout(refresh, Math.max(least, asked + between - Date.now()));
}

async function refresh() {
  timer = 0;
  if (document.hidden) return;
  asked = Date.now();
  const names = [...due].sort();
  due.clear();
  const url = new URL(location.href);
  url.hash = "";
  url.searchParams.set("part", ["title", ...names].join(","));
  try {
    const headers = { Accept: "text/html" };
    if (tags[url]) headers["If-None-Match"] = tags[url];
    const answer = await fetch(url, { headers, redirect: "error" });
    if (answer.status === 401) return location.reload();
    if (answer.status === 200) {
      tags[url] = answer.headers.get("Etag");
      place(await answer.text());
    } else if (answer.status !== 304) {
      throw new Error(answer.status);
    }
    schedule();
  } catch {
    names.forEach((name) => due.add(name));
    schedule(again);
  }
}

// hear takes versions of parts; a ping has none.
function hear(parts) {
  heard = Date.now();
  say("yes", "Live");
  for (const [name, version] of Object.entries(parts)) {
    if (shown[name] === version || !partNamed(name)) continue;
    shown[name] = version;
    due.add(name);
  }
  schedule();
}

function follow() {
  const channel = new BroadcastChannel("zester-live");
  const all = {};
  let leads = false;
  const tell = (parts) => {
    Object.assign(all, parts);
    channel.postMessage({ parts });
    hear(parts);
  };
  channel.onmessage = ({ data }) => {
    if (data.parts) hear(data.parts);
    else if (leads) channel.postMessage({ parts: all });
  };
  channel.postMessage({}); // the tab that has the stream answers
  const open = () => {
    leads = true;
    const stream = new EventSource("/events");
    stream.addEventListener("parts", (event) => tell(JSON.parse(event.data)));
    stream.addEventListener("ping", () => tell({}));
    stream.addEventListener("error", () => {
      if (stream.readyState !== EventSource.CLOSED) return; // else the browser connects again
      setTimeout(open, again);
      due.add("nav"); // whose request shows whether the session has ended
      schedule();
    });
    return new Promise(() => {}); // the lock is held until the page is left
  };
  if (navigator.locks) navigator.locks.request("zester-live", open);
  else open();
  document.addEventListener("visibilitychange", () => schedule());
  setInterval(() => {
    if (Date.now() - heard > staleAfter) say("stale", "Stale since " + new Date(heard).toTimeString().slice(0, 5));
  }, 1000);
}

if (live) follow();

// ---- Keys, unless the reader types or has switched them off.

const pages = { n: "now", t: "timeline", c: "commits", p: "peels", s: "states", j: "jobs", a: "alerts", r: "approvals", y: "system" };
const rows = "tbody tr, .rows > li, .lanes > .lane";
let went = -Infinity; // when g was pressed, in ms since the page began

function step(by) {
  const links = [...document.querySelectorAll(rows)].map((row) => row.querySelector("a[href]")).filter(Boolean);
  const row = document.activeElement.closest(rows);
  const at = row ? links.findIndex((link) => row.contains(link)) : -1;
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by;
  links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
}

function help() {
  const words = [
    ["/", "search"], ["j, k", "next and previous row"], ["Enter", "open the row"], ["Esc", "leave a field, a form or this list"],
    ...Object.entries(pages).map(([key, name]) => ["g " + key, document.querySelector(`[data-testid=nav-${name}]`)?.dataset.word]),
  ];
  const box = document.createElement("dialog");
  box.className = "help";
  box.dataset.testid = "keys";
  box.setAttribute("aria-label", "Keys");
  const list = box.appendChild(document.createElement("dl"));
  for (const [key, word] of words) {
    const dt = list.appendChild(document.createElement("dt"));
    dt.appendChild(document.createElement("kbd")).textContent = key;
    list.appendChild(document.createElement("dd")).textContent = word;
  }
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

function press(key, at) {
  if (at - went < 1500 && pages[key]) return document.querySelector(`[data-testid=nav-${pages[key]}]`).click();
  went = key === "g" ? at : -Infinity;
  if (key === "/") document.getElementById("q")?.focus();
  else if (key === "?") help();
  else if (key === "j") step(1);
  else if (key === "k") step(-1);
  else if (key === "Escape") document.querySelector("[data-testid=confirm] a.ghost")?.click();
  else return;
  return true;
}

document.addEventListener("keydown", (event) => {
  if (document.body.dataset.keys === "off" || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = document.activeElement.matches("input, textarea, select");
  if (typing && event.key === "Escape") document.activeElement.blur();
  if (typing || document.querySelector("dialog[open]")) return;
  if (press(event.key, event.timeStamp)) event.preventDefault();
});
