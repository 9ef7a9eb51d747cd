"use strict";
// The page of a Tocsin server. Everything shown is text: nothing that a user wrote is ever parsed as HTML.

const $ = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

async function ask(method, path, body) {
  const headers = {};
  if ($("key").value) headers.Authorization = `Bearer ${$("key").value}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.status === 401) document.querySelector(".key").hidden = false;
  const content = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(content.error.message), content.error);
  return content;
}

const explainError = (error) => (error.hint ? `${error.message}. ${error.hint}` : error.message);
const count = (number) => Math.round(number).toLocaleString("en");
const share = (part) => (part ? `${(100 * part).toPrecision(2)} %` : "–");
// JSON that can be wrapped between its fields.
const oneLine = (event) => JSON.stringify(event, null, 1).replace(/\n */g, " ");
const when = (time) => (time ? new Date(time * 1000).toLocaleTimeString() : "–");

function later(work, milliseconds) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(work, milliseconds); };
}

// Tabs, by mouse, arrow keys and the address.

const tabs = [...document.querySelectorAll("[role=tab]")];

function open(tab, focus) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", chosen);
    other.tabIndex = chosen ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (focus) tab.focus();
  history.replaceState(null, "", `#/${tab.getAttribute("aria-controls")}`);
  if (tab.id === "tab-browse" && !$("found").tBodies[0].rows.length) search();
  if (tab.id === "tab-live") { refreshFigures(); if (!following) follow(); }
}

tabs.forEach((tab, place) => {
  tab.addEventListener("click", () => open(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) open(tabs[(place + step + tabs.length) % tabs.length], true);
  });
});

// Playground.

const examples = {
  Prices: ["symbol = 'ACME' AND price BETWEEN 30 AND 40", { symbol: "ACME", price: 35, volume: 500 }],
  Words: ["has_words(news, 'takeover rumour*') OR has_phrase(news, 'profit warning')", { symbol: "HOOLI", news: "Takeover rumours lift the shares" }],
  Missing: ["price < 10 OR author = 'Smith'", { price: 12 }],
  Lists: ["array_contains(tags, 'Greece') AND NOT (price > 20)", { tags: ["travel", "Greece"], price: 12 }],
  XPath: ["xpath_exists(doc, '/order/item[@sku=\"A1\"]')", { doc: "<order><item sku=\"A1\"/></order>" }],
  History: ["price > ALL (SELECT price FROM history)", { symbol: "ACME", price: 500 }],
  "Top-k": ["symbol = 'ACME' AND price < 40 AND volume >= 9000", { symbol: "ACME", price: 35, volume: 500, news: "ACME: takeover rumours" }, "relaxed"],
};
const WORDS = /\b(AND|OR|NOT|IN|IS|NULL|LIKE|ILIKE|BETWEEN|TRUE|FALSE|ANY|ALL|SOME|EXISTS|SELECT|FROM|WHERE|DATE|TIMESTAMP|ESCAPE)\b/iy;
const LITERAL = /'(?:[^']|'')*'?|\b\d+(?:\.\d+)?\b/y;
let attributes = [];
let wrongAt = null;

for (const [name, [where, event, ranking = "exact"]] of Object.entries(examples)) {
  const button = element("button", { type: "button" }, name);
  button.addEventListener("click", () => {
    document.querySelectorAll(".examples button").forEach((other) => other.classList.toggle("chosen", other === button));
    $("where").value = where;
    $("event").value = JSON.stringify(event, null, 1);
    $("ranking").value = ranking;
    judge();
  });
  document.querySelector(".examples").append(button);
}

function paint() {
  const text = $("where").value;
  const painted = $("painted");
  painted.replaceChildren();
  let place = 0;
  while (place < text.length) {
    let end = place + 1, kind = "";
    for (const [pattern, name] of [[LITERAL, "literal"], [WORDS, "word"]]) {
      pattern.lastIndex = place;
      const found = pattern.exec(text);
      if (found) { end = place + found[0].length; kind = name; break; }
    }
    if (!kind) { const name = /[A-Za-z_][\w.]*/y; name.lastIndex = place; const found = name.exec(text); if (found) end = place + found[0].length; }
    const wrong = wrongAt !== null && wrongAt >= place && wrongAt < end;
    painted.append(element("span", { class: `${kind}${wrong ? " wrong" : ""}` }, text.slice(place, end)));
    place = end;
  }
  if (wrongAt !== null && wrongAt >= text.length) painted.append(element("span", { class: "wrong" }, "\u00a0"));
  painted.append("\n");
  painted.scrollTop = $("where").scrollTop;
}

function branch(node) {
  const item = element("li", {}, element("span", { class: `badge ${node.truth}` }, node.truth), " ");
  if (node.parts) {
    item.append(element("strong", {}, node.kind), element("ul", {}, ...node.parts.map(branch)));
  } else {
    item.append(element("code", {}, node.text));
    const values = Object.entries(node.values).map(([name, value]) => `${name} is ${JSON.stringify(value)}`);
    if (values.length) item.append(element("span", { class: "quiet" }, `  ${values.join(", ")}`));
  }
  return item;
}

const MOST_RANKED = 10;
let judged = 0;

async function judge() {
  paint();
  const number = ++judged, where = $("where").value;
  let event;
  try {
    event = JSON.parse($("event").value);
    $("event-complaint").textContent = "";
  } catch (error) {
    $("event-complaint").textContent = `The event is not JSON: ${error.message}`;
    return;
  }
  const complaint = $("complaint");
  try {
    const advice = await ask("POST", "check", { where });
    if (number !== judged) return;
    const [error] = advice.errors;
    wrongAt = error && error.position !== undefined ? error.position : null;
    paint();
    complaint.className = error ? "bad" : advice.warnings.length ? "warn" : "quiet";
    complaint.textContent = error ? explainError(error) : advice.warnings.map((one) => one.message).join("; ") || "No complaints.";
    $("where").setAttribute("aria-invalid", Boolean(error));
    if (error) return showVerdict(null);
    const [answer, found] = await Promise.all([ask("POST", "explain", { where, event }), ask("POST", "match", { event, top_k: MOST_RANKED, mode: $("ranking").value })]);
    if (number !== judged) return;
    showVerdict(answer);
    showMarked(answer.highlights, event);
    $("others").replaceChildren(...(found.matches.length ? found.matches.map((match) => element("li", {}, match.id, element("span", { class: "quiet" }, `score ${match.score}`)))
      : [element("li", { class: "quiet" }, "No standing subscription matches this event.")]));
  } catch (error) {
    complaint.className = "bad";
    complaint.textContent = explainError(error);
    showVerdict(null);
  }
}

function showVerdict(answer) {
  const badge = $("verdict");
  badge.className = "badge";
  badge.textContent = "";
  $("tree").replaceChildren();
  $("nearest").replaceChildren();
  $("marked").replaceChildren();
  if (!answer) return;
  badge.textContent = answer.matches ? "MATCHES" : "NO MATCH";
  badge.classList.add(answer.matches ? "TRUE" : "FALSE");
  if (answer.tree) $("tree").append(branch(answer.tree));
  const holds = answer.alternatives.findIndex((verdicts) => verdicts.every((one) => one.holds));
  const chosen = holds >= 0 ? holds : answer.nearest;
  if (chosen === null || !answer.alternatives[chosen].length) return;
  const of = answer.alternatives.length > 1 ? ` (alternative ${chosen + 1} of ${answer.alternatives.length})` : "";
  $("nearest").append(element("h2", {}, (holds >= 0 ? "What held" : "Nearest to matching") + of));
  $("nearest").append(element("ul", { class: "tree" }, ...answer.alternatives[chosen].map((one) => element("li", {},
    element("span", { class: `badge ${one.holds ? "TRUE" : "FALSE"}` }, one.holds ? "holds" : "fails"), " ", element("code", {}, one.text)))));
}

// Where in the texts of the event the condition found what it looks for; places count characters, not UTF-16.

function textAt(event, path) {
  if (path in event) return event[path];
  return path.split(/[.[\]]+/).filter(Boolean).reduce((value, name) => value?.[name], event);
}

function showMarked(highlights, event) {
  for (const [path, spans] of Object.entries(highlights)) {
    const text = textAt(event, path);
    if (typeof text !== "string" || !spans.length) continue;
    const letters = Array.from(text), parts = [];
    let end = 0;
    for (const [from, to] of spans) {
      if (from < end) continue;
      parts.push(letters.slice(end, from).join(""), element("mark", {}, letters.slice(from, to).join("")));
      end = to;
    }
    $("marked").append(element("h2", {}, `Found in ${path}`), element("p", {}, ...parts, letters.slice(end).join("")));
  }
}

// Completion of attribute names.

function wordAtCaret() {
  const box = $("where"), end = box.selectionStart;
  const found = /[A-Za-z_][\w.]*$/.exec(box.value.slice(0, end));
  return found && { start: end - found[0].length, end, text: found[0] };
}

function complete() {
  const word = wordAtCaret(), list = $("names");
  const fitting = word ? attributes.filter((name) => name.toLowerCase().startsWith(word.text.toLowerCase()) && name !== word.text).slice(0, 8) : [];
  list.replaceChildren(...fitting.map((name, place) => {
    const item = element("li", { role: "option", "aria-selected": place === 0 }, name);
    item.addEventListener("mousedown", (event) => { event.preventDefault(); take(name); });
    return item;
  }));
  list.hidden = !fitting.length;
}

function take(name) {
  const word = wordAtCaret();
  if (word) $("where").setRangeText(name, word.start, word.end, "end");
  $("names").hidden = true;
  judgeLater();
  paint();
}

const judgeLater = later(judge, 250);
$("where").addEventListener("input", () => { wrongAt = null; paint(); complete(); judgeLater(); });
$("where").addEventListener("scroll", paint);
$("where").addEventListener("blur", () => { $("names").hidden = true; });
$("where").addEventListener("keydown", (event) => {
  const list = $("names");
  if (list.hidden) return;
  const items = [...list.children], chosen = items.findIndex((item) => item.getAttribute("aria-selected") === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    const next = (chosen + step + items.length) % items.length;
    items.forEach((item, place) => item.setAttribute("aria-selected", place === next));
  } else if (event.key === "Enter" || event.key === "Tab") {
    event.preventDefault();
    take(items[chosen].textContent);
  } else if (event.key === "Escape") {
    list.hidden = true;
  }
});
$("event").addEventListener("input", judgeLater);
$("ranking").addEventListener("change", judge);
$("recent").addEventListener("change", () => {
  if ($("recent").value) { $("event").value = JSON.stringify(JSON.parse($("recent").value), null, 1); judge(); }
});

async function loadEvents() {
  const [{ events }, stats] = await Promise.all([ask("GET", "events?limit=20"), ask("GET", "stats")]);
  const names = new Set(stats.attributes);
  for (const { event } of events) Object.keys(event).forEach((name) => names.add(name));
  attributes = [...names].sort();
  $("recent").replaceChildren(element("option", { value: "" }, events.length ? "choose…" : "none yet"), ...events.reverse().map(({ number, event }) => {
    const text = JSON.stringify(event);
    return element("option", { value: text }, `${number}: ${text.slice(0, 60)}`);
  }));
}

// Live.

let before = null;

async function refreshFigures() {
  if ($("live").hidden || document.hidden) return;
  let stats;
  try { stats = await ask("GET", "stats"); } catch { return; }
  fillBusiest(stats.busiest);
  fillSlowest(stats.slowest);
  if (!stats.counters) return;
  const now = { time: performance.now() / 1000, ...stats.counters };
  const rate = (name) => (before ? Math.max(0, (now[name] - before[name]) / (now.time - before.time)) : 0);
  const spent = rate("match_seconds") / Math.max(rate("matched_events"), 1e-9);
  const figures = {
    "published / s": rate("published_events").toFixed(1),
    "matches / s": rate("published_matches").toFixed(1),
    "requests / s": rate("requests").toFixed(1),
    "µs a match": rate("matched_events") ? count(spent * 1e6) : "–",
    "lag, ms": rate("answered") ? ((1000 * rate("answer_seconds")) / rate("answered")).toFixed(1) : "–",
    waiting: count(now.waiting),
    subscriptions: count(stats.index.subscriptions),
    segments: stats.index.segments.length,
    merges: count(now.merges),
    commits: count(stats.commits),
    "ms a commit": now.commits ? ((1000 * now.commit_seconds) / now.commits).toFixed(0) : "–",
    "inbox entries": count(now.entries),
  };
  $("figures").replaceChildren(...Object.entries(figures).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value)))));
  const verified = Object.keys(stats.index.unindexed).slice(0, 10);
  $("unindexed").textContent = verified.length ? `Verified for every event: ${verified.join(", ")}` : "An index finds every subscription.";
  const most = Math.max(1, ...stats.index.segments);
  $("segments").replaceChildren(...stats.index.segments.map((size) => element("li", {}, drawing("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none" },
    drawing("rect", { width: (100 * size) / most, height: 10 })), element("span", {}, count(size)))));
  before = now;
}

function fillSlowest(rows) {
  const shown = rows.map((row) => element("tr", {}, element("td", {}, row.id), element("td", { class: "number" }, share(row.share))));
  $("slowest").tBodies[0].replaceChildren(...(shown.length ? shown : [element("tr", {}, element("td", { colspan: 2, class: "quiet" }, "measured after the first 256 events"))]));
}

function fillBusiest(rows) {
  $("busiest").tBodies[0].replaceChildren(...rows.map((row) => element("tr", {}, element("td", {}, row.id),
    element("td", { class: "number" }, count(row.hits)), element("td", {}, when(row.last)))));
}

setInterval(refreshFigures, 1000);

let following = null;

async function follow() {
  if (following) following.abort();
  following = new AbortController();
  const mine = following, name = encodeURIComponent($("subscriber").value || "nobody");
  $("feed").replaceChildren();
  let after = 0;
  while (!mine.signal.aborted) {
    try {
      const headers = $("key").value ? { Authorization: `Bearer ${$("key").value}` } : {};
      const answer = await fetch(`inbox/${name}?after=${after}&wait=25&limit=200`, { headers, signal: mine.signal });
      const { entries, after: last } = await answer.json();
      after = last ?? after;
      for (const entry of entries) showEntry(entry);
    } catch (error) {
      if (mine.signal.aborted) return;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

function showEntry(entry) {
  const matches = entry.digest || [entry];
  for (const match of matches) {
    $("feed").prepend(element("li", {}, element("strong", {}, match.subscription), element("span", { class: "quiet" }, `  ${when(entry.time)}  `),
      element("code", {}, oneLine(match.event))));
  }
  while ($("feed").children.length > 100) $("feed").lastChild.remove();
}

$("follow").addEventListener("submit", (event) => { event.preventDefault(); follow(); });
$("publish").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const answer = await ask("POST", "publish", { event: JSON.parse($("test-event").value) });
    $("published").textContent = `event ${answer.number}: ${count(answer.matches.length)} matches`;
  } catch (error) {
    $("published").textContent = explainError(error);
  }
});

// Back-test.

const SVG = "http://www.w3.org/2000/svg";

function drawing(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function chart(buckets) {
  const most = Math.max(1, ...buckets.map((bucket) => bucket.hits)), width = 800 / Math.max(buckets.length, 1);
  const label = (value) => (typeof value === "string" ? new Date(value).toLocaleString() : `event ${count(value)}`);
  const bars = buckets.map((bucket, place) => drawing("rect", { x: place * width + 1, y: 115 - (110 * bucket.hits) / most, width: width - 2, height: (110 * bucket.hits) / most },
    drawing("title", {}, `${label(bucket.from)}: ${bucket.hits}`)));
  const ends = buckets.length ? [buckets[0], buckets.at(-1)].map((bucket) => element("span", {}, label(bucket.from))) : [];
  $("chart").setAttribute("aria-label", `Hits over time, at most ${most} in one span`);
  $("chart").replaceChildren(drawing("svg", { viewBox: "0 0 800 120", preserveAspectRatio: "none" }, ...bars), element("p", { class: "ends quiet" }, ...ends));
}

const eventItem = (event) => element("li", {}, element("code", {}, oneLine(event)));

$("backtest").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = { where: $("back-where").value };
  if ($("back-id").value) body.id = $("back-id").value;
  try {
    const answer = await ask("POST", "backtest", body);
    $("back-complaint").textContent = "";
    const figures = { events: answer.events, hits: answer.hits };
    if (answer.present) Object.assign(figures, { "hits now": answer.present.hits, gained: answer.present.gained, lost: answer.present.lost });
    $("back-figures").replaceChildren(...Object.entries(figures).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, count(value)))));
    chart(answer.buckets);
    $("back-changes").hidden = !answer.present;
    for (const change of ["gained", "lost"]) {
      const events = (answer.present && answer.present[`${change}_examples`]) || [];
      $(`back-${change}`).replaceChildren(...(events.length ? events.map(eventItem) : [element("li", { class: "quiet" }, "none")]));
    }
    $("back-examples").replaceChildren(...answer.examples.reverse().map(({ event: one }) => eventItem(one)));
    $("back-answer").hidden = false;
  } catch (error) {
    $("back-complaint").textContent = explainError(error);
  }
});

// Browse.

let cursor = "";

async function search(more) {
  if (!more) { cursor = ""; $("found").tBodies[0].replaceChildren(); }
  const query = new URLSearchParams({ limit: 50, cursor });
  if ($("text").value) query.set("text", $("text").value);
  if ($("tag").value) query.set("tag", $("tag").value);
  try {
    const page = await ask("GET", `subscriptions?${query}`);
    $("browse-complaint").textContent = "";
    $("found").tBodies[0].append(...page.subscriptions.map((row) => element("tr", {}, element("td", {}, row.id), element("td", {}, row.where),
      element("td", { class: "number", "data-name": "score" }, String(row.score)), element("td", {}, Object.entries(row.tags).map((tag) => tag.join(":")).join(" ")),
      element("td", { class: "number", "data-name": "hits" }, count(row.hits)), element("td", { "data-name": "last match" }, when(row.last_match)),
      element("td", { class: "number", "data-name": "cost" }, share(row.cost_share)), element("td", { class: "bad" }, row.warnings.join("; ")))));
    cursor = page.cursor;
    $("more").hidden = !cursor;
  } catch (error) {
    $("browse-complaint").textContent = explainError(error);
  }
}

$("search").addEventListener("submit", (event) => { event.preventDefault(); search(); });
$("more").addEventListener("click", () => search(true));
$("key").addEventListener("change", () => { sessionStorage.setItem("key", $("key").value); loadEvents(); judge(); });

$("key").value = sessionStorage.getItem("key") || "";
document.querySelector(".examples button").click();
loadEvents().catch(() => {});
open(tabs.find((tab) => `#/${tab.getAttribute("aria-controls")}` === location.hash) || tabs[0]);
