// Opens pages in headless Chromium, uses them as a reader does, and checks what happens.
//
//   node tests/html/browser.mjs [--pictures FOLDER] [--first-screen FILE] [--paper PAGE] PAGE...
//
// FILE has the places of what the first page shows first. It is written where it is missing.
// Ends with status 0 where all is well, 1 where something is not, and 77 where there is no Chromium.
import { spawn } from "node:child_process";
import { accessSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const PHONE = { width: 390, height: 800 };
const DESK = { width: 1280, height: 900 };
const PAGE_MS = 60_000;

function findChromium() {
  const folders = (process.env.PATH ?? "").split(":");
  const programs = ["chromium", "chromium-browser", "google-chrome"];
  for (const path of folders.flatMap((folder) => programs.map((name) => join(folder, name)))) {
    try {
      accessSync(path, 1);
      return path;
    } catch {
      // Try the next one.
    }
  }
  return undefined;
}

// Speaks the DevTools protocol over two pipes: no port, no package.
class Browser {
  #last = 0;
  #waiting = new Map();
  #read = "";
  events = [];

  constructor(program) {
    this.folder = mkdtempSync(join(tmpdir(), "stage2-browser-"));
    const flags = [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
      "--remote-debugging-pipe", `--user-data-dir=${this.folder}`, "about:blank",
    ];
    this.process = spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.process.stdio[4].setEncoding("utf8").on("data", (text) => {
      const messages = (this.#read + text).split("\0");
      this.#read = messages.pop();
      messages.forEach((message) => this.#take(JSON.parse(message)));
    });
  }

  #take(message) {
    const waiting = this.#waiting.get(message.id);
    if (!waiting) {
      this.events.push(message);
      return;
    }
    this.#waiting.delete(message.id);
    if (message.error) waiting.reject(new Error(JSON.stringify(message.error)));
    else waiting.resolve(message.result);
  }

  send(method, params = {}) {
    const id = ++this.#last;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: this.session })}\0`);
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  async start() {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    this.session = sessionId;
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await this.send(`${domain}.enable`);
  }

  async show({ width, height }, dark = false) {
    const mobile = width < 600;
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile });
    const value = dark ? "dark" : "light";
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
  }

  async open(url) {
    this.events = [];
    await this.send("Page.navigate", { url });
    while (!this.events.some((event) => event.method === "Page.loadEventFired")) await this.pause();
  }

  pause(ms = 50) {
    return new Promise((resolve) => setTimeout(resolve, ms));
  }

  async value(expression) {
    const found = await this.send("Runtime.evaluate", { expression, returnByValue: true });
    if (found.exceptionDetails) throw new Error(`${expression}: ${JSON.stringify(found.exceptionDetails)}`);
    return found.result.value;
  }

  async key(key, shift = false) {
    const modifiers = shift ? 8 : 0;
    const text = { Enter: "\r", Tab: undefined }[key] ?? (key.length === 1 ? key : undefined);
    const code = { Enter: 13, Tab: 9 }[key];
    const typed = { type: "keyDown", key, windowsVirtualKeyCode: code, text, modifiers };
    await this.send("Input.dispatchKeyEvent", typed);
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key });
    await this.pause();
  }

  async end() {
    const gone = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill();
    await gone;
    // Its helpers may still write: what they leave is in the folder for temporary files.
    try {
      rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
    } catch (error) {
      console.error(`${this.folder} is left behind: ${error.message}`);
    }
  }
}

// What the page complained about, and what it tried to load.
function complaints(browser, url) {
  const found = [];
  for (const { method, params } of browser.events) {
    if (method === "Runtime.exceptionThrown") found.push(`exception: ${JSON.stringify(params.exceptionDetails)}`);
    if (method === "Runtime.consoleAPICalled") found.push(`console: ${JSON.stringify(params.args)}`);
    if (method === "Log.entryAdded" && params.entry.level === "error") found.push(`error: ${params.entry.text}`);
    if (method === "Network.requestWillBeSent" && params.request.url.split("#")[0] !== url) {
      found.push(`it loads ${params.request.url}`);
    }
  }
  return found;
}

async function useTimeline(browser, problems) {
  const box = 'document.querySelector(".timeline")';
  if (!(await browser.value(`Boolean(${box})`))) {
    console.log("  no timeline: its zoom is not checked");
    return;
  }
  const width = () => browser.value(`${box}.querySelector(".steps").getBoundingClientRect().width`);
  const before = await width();
  await browser.value(`${box}.querySelector('button[aria-label="Zoom in"]').click()`);
  const twice = await width();
  if (Math.abs(twice / before - 2) > 0.02) problems.push(`zoom by button: ${before} -> ${twice} px`);
  await browser.value(`${box}.querySelector(".scroll").focus({preventScroll: true})`);
  await browser.key("+");
  const four = await width();
  if (Math.abs(four / before - 4) > 0.04) problems.push(`zoom by key: ${before} -> ${four} px`);
  const ticks = await browser.value(`${box}.querySelectorAll(".axis text").length`);
  if (ticks < 2) problems.push(`${ticks} times on the axis of a zoomed timeline`);
  const panned = await browser.value(`(() => { const s = ${box}.querySelector(".scroll"); s.scrollLeft = 1e9; return s.scrollLeft; })()`);
  if (panned <= 0) problems.push("a zoomed timeline does not pan");
  await browser.key("n");
  const said = await browser.value(`${box}.querySelector("output:not(.count)").textContent`);
  if (!/ · .* · starts at [\d.]+ ms · takes [\d.]+ us/.test(said)) problems.push(`a bar says: ${said}`);
  for (let at = 0; at < 4; at++) await browser.key("+");
  await browser.key("n");
  await browser.pause(200);
  // By the buttons, after which the keys work as well.
  await browser.value(`${box}.querySelector('button[aria-label="Zoom in"]').focus({preventScroll: true})`);
  const seen = `(() => { const s = ${box}.querySelector(".scroll").getBoundingClientRect(), b = ${box}.querySelector(".picked").getBoundingClientRect(); return b.right > s.left && b.left < s.right; })()`;
  for (let at = 0; at < 3; at++) {
    await browser.value(`document.activeElement.click()`);
    if (!(await browser.value(seen))) problems.push(`the chosen bar leaves the picture in zoom ${at + 1}`);
  }
  const chosen = () => browser.value(`[...${box}.querySelectorAll(".lane rect")].findIndex((rect) => rect.matches(".picked"))`);
  const first = await chosen();
  await browser.key("p");
  await browser.key("n");
  const [height, second] = [await browser.value(`${box}.querySelector(".tools").getBoundingClientRect().height`), await chosen()];
  await browser.key("p");
  if ((await chosen()) === second && second > 0) problems.push(`p does nothing after a click on a button: bars ${first} and ${second}`);
  await browser.value(`${box}.querySelector("output:not(.count)").textContent = "nvjet_sm90_tst ".repeat(40)`);
  const long = await browser.value(`${box}.querySelector(".tools").getBoundingClientRect().height`);
  if (Math.abs(long - height) > 0.5) problems.push(`a long name moves the timeline by ${long - height} px`);
  await browser.key("n");
  await browser.pause(200);
  const [wide, named, lost] = await browser.value(
    `(() => { const s = ${box}.querySelector(".scroll").getBoundingClientRect(); const seen = (e) => { const b = e.getBoundingClientRect(); return Math.min(b.right, s.right) - Math.max(b.left, s.left); }; const count = (what, is) => [...${box}.querySelectorAll(what)].filter(is).length; return [count(".lane rect[data-n]", (r) => seen(r) > 100), count(".bar-names text", (t) => seen(t) > 10), count("svg.range", (r) => seen(r) > 100 && seen(r.querySelector("text")) < Math.max(1, Math.min(10, r.querySelector("text").getBoundingClientRect().width - 1)))]; })()`,
  );
  if (named < wide) problems.push(`${named} of ${wide} wide bars have their names`);
  const letters = await browser.value(
    `[...${box}.querySelectorAll("svg.range")].filter((r) => r.querySelector("text").getAttribute("visibility") !== "hidden" && r.querySelector("text").textContent.length > 3 && r.getBoundingClientRect().width < 20).length`,
  );
  if (letters > 0) problems.push(`${letters} narrow ranges have a letter or two of their names`);
  if (lost > 0) problems.push(`${lost} ranges have no name where a part of them is seen`);
  await stepFromView(browser, box, problems);
  await browser.key("0");
  const all = await width();
  if (Math.abs(all - before) > 1) problems.push(`show all: ${before} -> ${all} px`);
}

// n and p go on from what is chosen, and where that is out of view, from the edges of the view.
async function stepFromView(browser, box, problems) {
  const seen = `(r) => { const s = ${box}.querySelector(".scroll").getBoundingClientRect(), b = r.getBoundingClientRect(); return b.right > s.left && b.left < s.right; }`;
  const starts = `[...new Set([...${box}.querySelectorAll(".lane rect")].map((r) => parseFloat(r.getAttribute("x"))))].sort((a, b) => a - b)`;
  const place = () => browser.value(`parseFloat(${box}.querySelector(".lane .picked")?.getAttribute("x"))`);
  const pan = (part) => browser.value(`(() => { const s = ${box}.querySelector(".scroll"); s.scrollLeft = s.scrollWidth * ${part}; })()`);
  await pan(0);
  await browser.key("n");
  await pan(0.5);
  const [left, right] = await browser.value(
    `(() => { const s = ${box}.querySelector(".scroll"); const all = s.scrollWidth; return [s.scrollLeft, s.scrollLeft + s.clientWidth].map((x) => (x * 100) / all); })()`,
  );
  const all = await browser.value(starts);
  await browser.key("n");
  // A bar at the very edge of the view may count as in it, or not.
  const edge = [left - 1e-3, left + 1e-3].map((from) => all.find((x) => x >= from) ?? all.at(-1));
  const reached = await place();
  const next = edge.find((x) => Math.abs(x - reached) <= 1e-3) ?? edge[0];
  if (Math.abs((await place()) - next) > 1e-3) problems.push(`n in a view from ${left} % goes to the bar at ${await place()} instead of ${next} %`);
  await pan(0);
  await pan(0.5);
  if (next <= right) {
    const after = all.find((x) => x > next) ?? next;
    await browser.key("n");
    if (Math.abs((await place()) - after) > 1e-3 && after !== next) problems.push(`n goes from ${next} to ${await place()} instead of ${after} %`);
    const picked = await browser.value(`${box}.querySelectorAll(".picked").length`);
    if (picked !== 1) problems.push(`${picked} bars are chosen at once`);
  }
  // A click on what is no bar of a lane is a place to go on from, too.
  const gap = await browser.value(
    `(() => { const g = [...${box}.querySelectorAll(".gaps rect")].filter(${seen}).at(-1); if (!g) return null; g.dispatchEvent(new MouseEvent("click", { bubbles: true })); return parseFloat(g.getAttribute("x")); })()`,
  );
  if (gap === null) return;
  await browser.key("n");
  const from = all.find((x) => x >= gap - 1e-3) ?? all.at(-1);
  if (Math.abs((await place()) - from) > 1e-3) problems.push(`after a click on a gap at ${gap} %, n goes to ${await place()} instead of ${from} %`);
}

// A folded picture has no width before it is opened.
async function openStage(browser, problems) {
  const box = 'document.querySelector(".part > .stage .timeline")';
  if (!(await browser.value(`Boolean(${box})`))) {
    console.log("  no timeline in a folded stage: its axis is not checked");
    return;
  }
  const id = await browser.value(`${box}.closest(".stage").id`);
  await browser.value(`document.querySelector('nav a[href="#${id}"]').click()`);
  await browser.pause(200);
  if (!(await browser.value(`${box}.closest("details").open`))) problems.push(`the link to ${id} does not open it`);
  const ticks = await browser.value(`${box}.querySelectorAll(".axis text").length`);
  if (ticks < 2) problems.push(`${ticks} times on the axis of the timeline of ${id}`);
}

async function findWork(browser, problems) {
  const box = 'document.querySelector(".timeline")';
  if (!(await browser.value(`Boolean(${box})`))) return;
  const name = await browser.value(`document.querySelector("details.names tbody td")?.textContent`);
  if (!name) {
    console.log("  no names of GPU work: their search is not checked");
    return;
  }
  const type = (text) =>
    browser.value(`(() => { const i = ${box}.querySelector("input"); i.value = ${JSON.stringify(text)}; i.dispatchEvent(new Event("input")); })()`);
  await type(name);
  const said = await browser.value(`${box}.querySelector(".count").textContent`);
  const [, found, all] = said.match(/^(\d+) of (\d+) bars of GPU work, [\d.]+ ms/) ?? [];
  if (!(found > 0 && Number(found) <= Number(all))) problems.push(`a search for ${name} says: ${said}`);
  await browser.value(`${box}.querySelector(".scroll").focus({preventScroll: true})`);
  for (let at = 0; at < 3; at++) {
    await browser.key("n");
    const isMarked = await browser.value(`${box}.querySelector(".picked").matches(".found")`);
    if (!isMarked) problems.push(`n leaves the bars that are called ${name}`);
  }
  const picked = () => browser.value(`[...${box}.querySelectorAll(".lane rect")].findIndex((rect) => rect.matches(".picked"))`);
  const [inView, band, differs, number] = await browser.value(
    `(() => { const p = ${box}.querySelector(".picked"), s = ${box}.querySelector(".scroll").getBoundingClientRect(), b = p.getBoundingClientRect(); const other = [...${box}.querySelectorAll(".found")].find((r) => r !== p); return [b.right > s.left && b.left < s.right, ${box}.querySelector(".band").getAttribute("visibility"), !other || getComputedStyle(other).stroke !== getComputedStyle(p).stroke, ${box}.querySelector(".count").textContent.match(/this is match (\\d+)/)?.[1]]; })()`,
  );
  if (!inView || band !== "visible" || !differs) problems.push(`the current match is in view: ${inView}, has a band: ${band}, differs from the others: ${differs}`);
  if (!(Number(number) >= 1)) problems.push("the number of the current match is not told");
  await browser.value(
    `${box}.querySelector(".lane rect").dispatchEvent(new PointerEvent("pointerover", { bubbles: true, pointerType: "mouse" }))`,
  );
  const kept = await browser.value(`${box}.querySelector(".count").textContent`);
  if (!kept.startsWith(`${found} of ${all} bars`)) problems.push(`pointing at a bar replaces the number of matches: ${kept}`);
  const last = await picked();
  await browser.value(`${box}.querySelector("input").focus({preventScroll: true})`);
  await browser.key("Enter", true);
  const before = await picked();
  await browser.key("Enter");
  if ((await picked()) !== last || (found > 1 && before === last)) problems.push(`Enter in the search goes from bar ${last} to ${before} and ${await picked()}`);
  await type("");
  if (await browser.value(`${box}.querySelectorAll(".found").length`)) problems.push("an empty search marks bars");
}

async function useRanks(browser, problems) {
  const group = 'document.querySelector(".ranks")';
  if (!(await browser.value(`Boolean(${group})`))) {
    console.log("  no timelines of two ranks: their choice is not checked");
    return;
  }
  const widths = () =>
    browser.value(`[...${group}.querySelectorAll(".steps")].map((picture) => Math.round(picture.getBoundingClientRect().width))`);
  await browser.value(`${group}.querySelector('.timeline button[aria-label="Zoom in"]').click()`);
  await browser.value(`${group}.querySelector(".scroll").scrollLeft = 100`);
  await browser.pause(200);
  const [a, b] = await widths();
  if (a !== b) problems.push(`ranks zoom apart: ${a} and ${b} px`);
  const lefts = await browser.value(`[...${group}.querySelectorAll(".scroll")].map((scroll) => scroll.scrollLeft)`);
  if (lefts[0] !== 100 || lefts[1] !== 100) problems.push(`ranks pan apart: ${lefts}`);
  const choice = `${group}.querySelectorAll(".rank-choice button")`;
  const shown = () => browser.value(`[...${group}.querySelectorAll(".rank")].map((rank) => !rank.hidden)`);
  for (const [number, wanted] of [[1, [true, false]], [2, [false, true]], [0, [true, true]]]) {
    await browser.value(`${choice}[${number}].click()`);
    const found = await shown();
    if (String(found) !== String(wanted)) problems.push(`choice ${number} of ranks shows ${found}`);
  }
}

// The other tables of numbers sort as well, by the column that is clicked.
async function sortTables(browser, problems) {
  const wrong = await browser.value(`[...document.querySelectorAll("table.sorts:not(#kernels)")].filter((table) => {
    const at = [...table.tHead.rows[0].cells].findIndex((head) => head.classList.contains("n"));
    const isPart = (row) => Boolean(row.querySelector(".part-of"));
    const rest = table.closest(".table")?.nextElementSibling;
    const all = [...table.rows, ...(rest?.matches(".rest") ? rest.querySelectorAll("tbody tr") : [])];
    const wholes = () => new Map(all.filter(isPart).map((row) => {
      let whole = row.previousElementSibling;
      while (whole && isPart(whole)) whole = whole.previousElementSibling;
      return [row, whole];
    }));
    const before = wholes();
    // What is apart stays last.
    const from = table.tBodies[0].querySelector(".apart");
    const last = from ? [...table.tBodies[0].rows].slice(from.sectionRowIndex) : [];
    table.tHead.rows[0].cells[at].querySelector("button").click();
    const rows = [...table.tBodies[0].rows];
    const values = rows.slice(0, rows.length - last.length).filter((row) => !isPart(row)).map((row) => parseFloat(row.cells[at].textContent.replaceAll(",", "")));
    return values.some((value, i) => i > 0 && !(value <= values[i - 1]) && !Number.isNaN(value)) ||
      rows.length !== all.length - 1 || last.some((row, i) => row !== rows.at(i - last.length)) || [...wholes()].some(([row, whole]) => before.get(row) !== whole);
  }).map((table) => table.textContent.slice(0, 40))`);
  if (wrong.length > 0) problems.push(`tables that do not sort down: ${wrong}`);
}

// A long table shows the rows that have the words, with the wholes that these are parts of.
async function searchTables(browser, problems) {
  const [sorted, searched] = await browser.value('["table.sorts", ".filter"].map((part) => document.querySelectorAll(part).length)');
  if (sorted < 3 || searched < 1) problems.push(`${sorted} tables sort, and ${searched} are searched`);
  const found = await browser.value(`[...document.querySelectorAll(".filter")].map((box) => {
    const rows = [...box.nextElementSibling.querySelectorAll("tbody tr")];
    const [field, word] = [box.querySelector("input"), rows[0].textContent.match(/[a-z_]{4,}/i)[0].toLowerCase()];
    const type = (text) => { field.value = text; field.dispatchEvent(new Event("input")); return rows.filter((row) => !row.hidden); };
    const left = type(word);
    const is = left.some((row) => row.textContent.toLowerCase().includes(word)) && left.length <= rows.length;
    return is && type("no row has this name").length === 0 && type("").length === rows.length;
  })`);
  if (found.includes(false)) problems.push(`searched tables: ${found}`);
}

async function useKernels(browser, problems) {
  const table = 'document.querySelector("#kernels")';
  if (!(await browser.value(`Boolean(${table})`))) {
    console.log("  no kernels: sorting and filtering are not checked");
    return;
  }
  const heads = await browser.value(`[...${table}.tHead.rows[0].cells].map((cell) => cell.textContent)`);
  const at = (name) => heads.indexOf(name);
  const rows = `[...${table}.tBodies[0].rows].filter((r) => !r.hidden)`;
  const column = (name) => browser.value(`${rows}.map((r) => r.cells[${at(name)}].textContent)`);
  const cut = await browser.value(
    `(() => { const frame = ${table}.closest(".table").getBoundingClientRect(); return [...${table}.tHead.rows[0].cells].slice(0, 7).filter((h) => h.getBoundingClientRect().right > frame.right).map((h) => h.textContent); })()`,
  );
  if (cut.length > 0) problems.push(`on a screen of ${DESK.width} px these columns are cut off: ${cut}`);
  const tall = await browser.value(`Math.max(...${rows}.map((r) => r.getBoundingClientRect().height))`);
  if (tall > 110) problems.push(`a row of kernels is ${tall} px high`);
  const button = `${table}.tHead.rows[0].cells[${at("Calls")}].querySelector("button")`;
  const numbers = async () => (await column("Calls")).map((cell) => Number(cell.replaceAll(",", "")));
  await browser.value(`${button}.click()`);
  let found = await numbers();
  if (found.some((value, i) => i > 0 && value > found[i - 1])) problems.push("calls do not sort down");
  await browser.value(`${button}.focus()`);
  await browser.key("Enter");
  found = await numbers();
  if (found.some((value, i) => i > 0 && value < found[i - 1])) problems.push("calls do not sort up, by the keyboard");
  const names = await column("Kernel");
  const more = 'document.querySelector(".more")';
  if (await browser.value(`${table}.querySelectorAll(".small").length > 0`)) {
    const press = () => browser.value(`${more}.click()`);
    const small = await browser.value(`Number(${more}.textContent.match(/^Show (\\d+) more kernels?,/)?.[1])`);
    await press();
    const open = (await column("Kernel")).length;
    if (!(small > 0) || open !== names.length + small) problems.push(`${names.length} kernels and ${small} more are ${open}`);
    await press();
    const rare = await browser.value(`${table}.querySelector(".small").dataset.id`);
    await browser.value(`(() => { const i = document.querySelector(".filter input"); i.value = ${JSON.stringify(rare)}; i.dispatchEvent(new Event("input")); })()`);
    if ((await column("Kernel")).length === 0) problems.push(`the filter does not find the folded kernel ${rare}`);
    await browser.value(`(() => { const i = document.querySelector(".filter input"); i.value = ""; i.dispatchEvent(new Event("input")); })()`);
  } else if (!(await browser.value(`${more}.hidden`))) {
    problems.push("there is a button for more kernels, and no kernel is folded");
  }
  const word = (names[0].match(/[a-z_]{4,}/i) ?? ["void"])[0];
  const type = (text) =>
    browser.value(`(() => { const i = document.querySelector(".filter input"); i.value = ${JSON.stringify(text)}; i.dispatchEvent(new Event("input")); })()`);
  await type(word);
  const left = await browser.value(
    `${rows}.every((r) => (r.textContent + r.querySelector("[title]").title).toLowerCase().includes(${JSON.stringify(word.toLowerCase())}))`,
  );
  if (!left) problems.push(`the filter ${word} leaves rows without it`);
  await type("no kernel has this name");
  if ((await column("Kernel")).length > 0) problems.push("a filter that nothing matches leaves rows");
  await type("");
  if ((await column("Kernel")).length !== names.length) problems.push("an empty filter hides rows");
  const tabs = await browser.value(`[...document.querySelectorAll(".tabs button")].map((tab) => tab.textContent)`);
  const stages = new Set(await column("Stage"));
  const outside = `[...${table}.tBodies[0].rows].filter((r) => "outside" in r.dataset)`;
  const has = await browser.value(`${outside}.length > 0`);
  const apart = new Set(await browser.value(`${outside}.map((r) => r.cells[${at("Stage")}].textContent)`));
  // One name for one thing: in the button as in the cells.
  const outsideTab = apart.size === 1 ? [...apart][0] : "outside the stages";
  if (has !== (tabs.at(-1) === outsideTab)) problems.push(`work outside of the stages: ${has}, and the tabs are ${tabs}`);
  const others = Number(tabs.at(has ? -2 : -1)?.match(/^(\d+) other stages$/)?.[1] ?? 0);
  const all = await browser.value(`new Set([...${table}.tBodies[0].rows].map((r) => "outside" in r.dataset ? "${outsideTab}" : r.cells[${at("Stage")}].textContent)).size`);
  if (all > 1 && tabs.length !== all + 1 - others + (others ? 1 : 0)) problems.push(`the tabs of ${[...stages]} are ${tabs}`);
  for (const [number, tab] of tabs.entries()) {
    await browser.value(`document.querySelectorAll(".tabs button")[${number}].click()`);
    const shown = new Set(await column("Stage"));
    const isOthers = others > 0 && number === tabs.length - (has ? 2 : 1);
    const right = number === 0
      ? shown.size === stages.size
      : tab === outsideTab ? [...shown].every((name) => apart.has(name))
      : isOthers ? shown.size > 0 && tabs.every((name) => !shown.has(name)) : shown.size === 1 && shown.has(tab);
    if (!right) problems.push(`the tab ${tab} shows ${[...shown]}`);
  }
  if (tabs.length > 0) await browser.value(`document.querySelector(".tabs button").click()`);
  const copied = await browser.value(
    `(() => { const cell = ${rows}[0].cells[0]; getSelection().selectAllChildren(cell); const clipboardData = new DataTransfer(); cell.dispatchEvent(new ClipboardEvent("copy", { clipboardData, bubbles: true, cancelable: true })); return [clipboardData.getData("text/plain"), cell.querySelector("[title]").title]; })()`,
  );
  if (copied[0] !== copied[1]) problems.push(`a copied name is ${copied[0]} instead of ${copied[1]}`);
  const link = `document.querySelector("#kernels td:first-child a[href$=timeline]")`;
  if (await browser.value(`Boolean(${link})`)) {
    await browser.value(`${link}.click()`);
    await browser.pause();
    const marked = await browser.value(`document.querySelector(${link}.hash).querySelectorAll(".found").length`);
    const isNamed = await browser.value(`Boolean(document.querySelector("details.names"))`);
    if (marked === 0 && isNamed) problems.push(`the link of ${names[0]} marks no bar of the timeline`);
  }
  const point = `document.querySelector("#kernels td a[href$=roofline]")`;
  if (await browser.value(`Boolean(${point})`)) {
    await browser.value(`${point}.click()`);
    const marked = await browser.value(`document.querySelector(${point}.hash).querySelectorAll(".found").length`);
    if (marked === 0) problems.push("the link of a share marks no point of the roofline");
  }
}

// Numbers and names in a roofline cover neither each other nor the edge, points lead to rows, and the list marks them.
async function useRoofline(browser, problems) {
  const boxes = await browser.value(`document.querySelectorAll(".roofline").length`);
  if (boxes === 0) {
    console.log("  no roofline: its labels are not checked");
    return;
  }
  await browser.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
  const covered = await browser.value(
    `[...document.querySelectorAll(".roofline")].flatMap((box) => { const texts = [...box.querySelectorAll(".number, .roof")].map((t) => [t.textContent, t.getBoundingClientRect()]); const edge = box.querySelector(".chart").getBoundingClientRect(); const cover = (a, b) => a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 2 && b.top < a.bottom - 2; return texts.flatMap(([name, a], i) => [...texts.slice(i + 1).filter(([, b]) => cover(a, b)).map(([other]) => name + " and " + other), ...(a.left < edge.left || a.right > edge.right ? [name + " and the edge"] : [])]); })`,
  );
  if (covered.length > 0) problems.push(`labels of a roofline cover each other: ${covered.slice(0, 4)}`);
  const lost = await browser.value(
    `[...document.querySelectorAll(".roofline")].filter((box) => { const numbers = [...box.querySelectorAll(".number")].map((n) => n.textContent); const listed = [...box.querySelectorAll(".points tr[data-n]")].map((r) => r.dataset.n); const points = [...box.querySelectorAll(".point")]; return points.length === 0 || listed.length === 0 || numbers.some((n) => !listed.includes(n) || !points.some((p) => p.dataset.n === n)); }).length`,
  );
  if (lost > 0) problems.push(`${lost} rooflines have numbers without a point or a row`);
  const box = 'document.querySelector(".roofline")';
  await browser.value(`${box}.querySelector(".points tr[data-n]").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }))`);
  const [said, marked] = await browser.value(`[${box}.querySelector("output").textContent, ${box}.querySelectorAll(".picked").length]`);
  if (!/% of the stage|below the picture/.test(said) || marked < 1) problems.push(`the first row of the list says: ${said}`);
  const to = await browser.value(`document.getElementById(${box}.querySelector("a .point")?.closest("a").getAttribute("href").slice(1))?.closest("table").id`);
  if (to !== "kernels") problems.push(`a point of the roofline leads to ${to}`);
}

// A table that needs a bar to scroll hides its last columns.
async function fitsDesk(browser, problems) {
  const cut = await browser.value(
    `[...document.querySelectorAll(".table")].filter((t) => t.checkVisibility({ contentVisibilityAuto: true }) && t.scrollWidth > t.clientWidth + 1).map((t) => t.scrollWidth + " in " + t.clientWidth + " px: " + [...t.querySelectorAll("thead th")].map((h) => h.textContent).slice(0, 3))`,
  );
  if (cut.length > 0) problems.push(`${cut.length} tables scroll on a screen of ${DESK.width} px: ${cut.slice(0, 4).join("; ")}`);
}

// What leads nowhere, and what should stand above the pictures.
async function readTop(browser, problems) {
  const dead = await browser.value(
    `[...document.querySelectorAll("a[href^='#']")].filter((a) => !document.getElementById(a.getAttribute("href").slice(1))).map((a) => a.outerHTML.slice(0, 90))`,
  );
  if (dead.length > 0) problems.push(`links that lead nowhere: ${dead.slice(0, 3)}`);
  const order = await browser.value(
    `["header", "#recommendations", "#takeaways", "#findings", ".stage, #all-kernels"].map((part) => document.querySelector(part)?.closest("header, section, details")?.getBoundingClientRect().top)`,
  );
  const sorted = order.every((top, i) => i === 0 || top > order[i - 1]);
  if (!sorted) problems.push(`answer, recommendations, takeaways, findings and stages begin at ${order} px`);
  const tiles = await browser.value(`document.querySelectorAll("header .cards > div").length`);
  if (tiles > 0) problems.push(`${tiles} tiles of the head are no links`);
  await browser.value("document.activeElement.blur()");
  const stops = new Set();
  for (let at = 0; at < 4; at++) {
    await browser.key("Tab");
    stops.add(await browser.value("document.activeElement.outerHTML.slice(0, 60)"));
  }
  if (stops.size < 4) problems.push(`the keyboard reaches ${[...stops]} only`);
}

// Texts whose colour is too near to that of what is behind them.
const PALE = `(() => {
  const parse = (colour) => {
    const n = colour.match(/[\\d.]+/g).map(Number);
    const by = colour.startsWith("color(srgb") ? 255 : 1;
    return [n[0] * by, n[1] * by, n[2] * by, n[3] ?? 1];
  };
  const over = (top, under) => top.map((c, i) => (i === 3 ? 1 : c * top[3] + under[i] * (1 - top[3])));
  const behind = (e) => {
    if (!e) return [255, 255, 255, 1];
    const own = parse(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(e.parentElement));
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Map();
  for (const e of document.querySelectorAll("body *")) {
    const isText = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const inPicture = e.closest("svg");
    if (!isText || (inPicture && !inPicture.matches(".chart")) || e.matches("script, title, desc") || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const back = behind(inPicture ? inPicture.parentElement : e);
    const front = over(parse(inPicture ? style.fill : style.color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.set(e.tagName + "." + e.getAttribute("class"), ratio.toFixed(2) + " " + e.textContent.slice(0, 30));
  }
  return [...found].map((pair) => pair.join(": "));
})()`;

async function readOnPhone(browser, problems) {
  const contents = () => browser.value('document.querySelector("nav").getBoundingClientRect().height');
  if ((await contents()) > 60) problems.push(`the contents take ${await contents()} px of a phone before they are opened`);
  await browser.value('document.querySelector("nav summary").click()');
  if ((await contents()) < 60) problems.push("the contents of a phone do not open");
  const ticks = await browser.value(`document.querySelector(".stage .timeline")?.checkVisibility({ contentVisibilityAuto: true }) ? document.querySelectorAll(".stage .timeline .axis text").length : 2`);
  if (ticks < 2) problems.push(`${ticks} times on the axis of a phone`);
  await browser.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
  // Tables of ranks, which are compared down a column, scroll below the names of the ranks.
  const cells = `[...document.querySelectorAll("table:not(.heat) td.n")].filter((c) => c.getClientRects().length)`;
  const out = await browser.value(
    `${cells}.filter((c) => c.getBoundingClientRect().right > ${PHONE.width}).map((c) => c.closest("section, details").querySelector("h2, summary").textContent + ": " + c.textContent)`,
  );
  if (out.length > 0) problems.push(`${out.length} numbers are beyond ${PHONE.width} px: ${[...new Set(out)].slice(0, 4)}`);
}

// The width of A4 without its margins.
const PAPER = { width: 718, height: 1000 };
async function printed(browser, problems) {
  await browser.value("document.querySelectorAll('details').forEach((d) => { d.open = false; })");
  await browser.show(PAPER);
  await browser.send("Emulation.setEmulatedMedia", { media: "print" });
  const folded = await browser.value(
    `[...document.querySelectorAll(".stage, .stage table, .table")].filter((e) => !e.closest(".names, .part:not(:has(> .stage))") && !e.checkVisibility({ contentVisibilityAuto: true })).length`,
  );
  if (folded > 0) problems.push(`${folded} stages and tables are not on paper`);
  const answers = await browser.value(
    `[...document.querySelectorAll("#takeaways, #findings, header > details > :not(summary)")].filter((e) => e.getBoundingClientRect().height < 1 || !e.checkVisibility({ contentVisibilityAuto: true })).map((e) => e.id || e.className)`,
  );
  if (answers.length > 0) problems.push(`answers that are not on paper: ${answers}`);
  const noList = await browser.value(
    `[...document.querySelectorAll(".note")].filter((note) => note.checkVisibility({ contentVisibilityAuto: true }) && note.innerText.includes("The list below")).length`,
  );
  if (noList > 0) problems.push(`${noList} timelines on paper name a list that is not there`);
  const cut = await browser.value(
    `[...document.querySelectorAll(".table, .tall")].filter((t) => getComputedStyle(t).overflowX !== "visible").length`,
  );
  if (cut > 0) problems.push(`${cut} tables are cut off on paper`);
  const cards = await browser.value(`[...document.querySelectorAll("table")].filter((t) => getComputedStyle(t).display !== "table").length`);
  if (cards > 0) problems.push(`${cards} tables are no tables on paper`);
  const wide = await browser.value(
    `[...document.querySelectorAll("table")].filter((t) => t.getBoundingClientRect().right > ${PAPER.width}).map((t) => t.closest("section, details, header, main")?.id)`,
  );
  if (wide.length > 0) problems.push(`tables do not fit on paper: ${wide}`);
  const broken = await browser.value(`[...document.querySelectorAll("td, th")].flatMap((cell) => {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    const found = [];
    while (texts.nextNode()) {
      for (const { 0: word, index } of texts.currentNode.data.matchAll(/(?<!\\S)[A-Za-z]{2,8}(?!\\S)/g)) {
        const range = document.createRange();
        range.setStart(texts.currentNode, index);
        range.setEnd(texts.currentNode, index + word.length);
        if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) found.push(word + " in " + (cell.closest("table").id || cell.closest("[id]")?.id));
      }
    }
    return found;
  })`);
  if (broken.length > 0) problems.push(`${broken.length} short words are broken on paper: ${[...new Set(broken)].slice(0, 6)}`);
  const controls = await browser.value(
    `[...document.querySelectorAll("nav, .tools, .filter, .theme, button.more, .part:not([open], :has(> .stage, > #takeaways, > #findings)) > summary, .names > summary")].filter((e) => e.getClientRects().length).length`,
  );
  if (controls > 0) problems.push(`${controls} controls are on paper`);
  await browser.send("Emulation.setEmulatedMedia", { media: "" });
  await browser.show(DESK);
}

// The first screen, coarsely: where its parts are, in steps that other fonts do not change by more than a few.
const STEP_PX = 20;
async function firstScreen(browser) {
  await browser.value("scrollTo(0, 0)");
  const parts = ["nav", "h1", ".answer", ".answer dt", ".answer dd", "header .cards > *", "main section h2", "main table th"];
  return browser.value(
    `Object.fromEntries(${JSON.stringify(parts)}.map((part) => [part, [...document.querySelectorAll(part)].map((e) => e.getBoundingClientRect()).filter((b) => b.top < ${DESK.height} && b.width > 0).slice(0, 8).map((b) => [b.left, b.top, b.width, b.height].map((px) => Math.round(px / ${STEP_PX})))]))`,
  );
}

async function compareFirstScreen(browser, file, problems) {
  const found = await firstScreen(browser);
  if (!existsSync(file)) {
    writeFileSync(file, `${JSON.stringify(found)}\n`);
    console.log(`  ${file} is written: read it, and open the page`);
    return;
  }
  const wanted = JSON.parse(readFileSync(file, "utf8"));
  for (const [part, boxes] of Object.entries(wanted)) {
    const near = (a, b) => a.every((value, i) => Math.abs(value - b[i]) <= Math.max(3, value * 0.2));
    const same = boxes.length === found[part]?.length && boxes.every((box, i) => near(box, found[part][i]));
    if (!same) problems.push(`first screen: ${part} is at ${JSON.stringify(found[part])} instead of ${JSON.stringify(boxes)}`);
  }
}

async function useFlame(browser, problems) {
  const box = 'document.querySelector(".flame")';
  if (!(await browser.value(`Boolean(${box})`))) {
    console.log("  no flame graph: its zoom and its search are not checked");
    return;
  }
  const width = () => browser.value(`${box}.querySelector(".stacks").getBoundingClientRect().width`);
  const said = () => browser.value(`${box}.querySelector("output").textContent`);
  const count = (what) => browser.value(`${box}.querySelectorAll("${what}").length`);
  const all = await width();
  // Behind others, so that its callers begin left of what is shown.
  const unnamed = await browser.value(
    `(() => {
      const frames = [...${box}.querySelectorAll("svg.frame")], scroll = ${box}.querySelector(".scroll");
      const part = (f, name) => parseFloat(f.getAttribute(name));
      const inner = frames.filter((f) => part(f, "width") < 90 && part(f, "x") > 1)[0];
      inner?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      const edge = scroll.getBoundingClientRect().left;
      const begins = (f) => f.getBoundingClientRect().left < edge - 3 && f.getBoundingClientRect().right > edge + 20;
      return frames.filter((f) => begins(f) && Math.abs(f.querySelector("text").getBoundingClientRect().left - edge - 3) > 3).length;
    })()`,
  );
  if (unnamed > 0) problems.push(`${unnamed} callers of the frame that fills the width have no name at its edge`);
  // One that is narrower than the graph.
  const share = await browser.value(
    `(() => { const f = [...${box}.querySelectorAll("svg.frame")].filter((f) => parseFloat(f.getAttribute("width")) < 90)[0]; f.dispatchEvent(new MouseEvent("click", { bubbles: true })); return parseFloat(f.getAttribute("width")) / 100; })()`,
  );
  const zoomed = await width();
  if (Math.abs((zoomed * share) / all - 1) > 0.02) problems.push(`a frame of ${share} of the width is ${zoomed * share} px of ${all}`);
  const place = await browser.value(
    `(() => { const f = ${box}.querySelector(".picked").getBoundingClientRect(), s = ${box}.querySelector(".scroll").getBoundingClientRect(); return f.left - s.left; })()`,
  );
  if (Math.abs(place) > 3) problems.push(`the frame that fills the width begins ${place} px from its edge`);
  if (!/: [\d.]+ %(, [\d,]+ samples?)?$/.test(await said())) problems.push(`a frame says: ${await said()}`);
  await browser.value(`${box}.querySelector(".scroll").focus({preventScroll: true})`);
  await browser.key("0");
  if (Math.abs((await width()) - all) > 1) problems.push("0 does not show all frames");
  const before = await said();
  const isLast = await browser.value(`[...${box}.querySelectorAll("svg.frame")].at(-1).matches(".picked")`);
  await browser.key("n");
  if (((await said()) === before) !== isLast || (await count(".picked")) !== 1) problems.push(`n does not step on from: ${before}`);
  await browser.key("p");
  if ((await said()) !== before && !isLast) problems.push(`p does not step back to: ${before}`);
  await browser.key("Enter");
  if (Math.abs((await width()) - zoomed) > 1 && !isLast) problems.push("Enter does not show the frame");
  await browser.value(`${box}.querySelector('button[aria-label="Show all frames"]').click()`);
  if (Math.abs((await width()) - all) > 1) problems.push("the button does not show all frames");
  const type = (text) =>
    browser.value(`(() => { const i = ${box}.querySelector("input"); i.value = ${JSON.stringify(text)}; i.dispatchEvent(new Event("input")); })()`);
  const word = before.match(/[A-Za-z_]{4,}/)[0];
  await type(word.toUpperCase());
  const [found, frames] = [await count(".found"), await count("svg.frame")];
  const right = await browser.value(
    `[...${box}.querySelectorAll("svg.frame")].every((f) => f.matches(".found") === f.querySelector("title").textContent.toLowerCase().includes(${JSON.stringify(word.toLowerCase())}))`,
  );
  if (found === 0 || !right) problems.push(`a search for ${word} marks ${found} frames`);
  const percent = Number((await said()).match(/^\d+ of \d+ frames, ([\d.]+) % of the time; Enter/)?.[1]);
  if (!(percent > 0 && percent <= 100.1) || !(await said()).startsWith(`${found} of ${frames} `)) problems.push(`a search says: ${await said()}`);
  await browser.value(`${box}.querySelector("input").focus({preventScroll: true})`);
  await browser.key("Enter");
  const match = (await said()).match(/^match (\d+) of (\d+) \(([\d.]+) % together\): /);
  if (!match || Number(match[2]) !== found || Number(match[3]) !== percent) problems.push(`a match says: ${await said()}`);
  await type("no frame has this name");
  if ((await count(".found")) > 0) problems.push("a search that nothing matches marks frames");
  await type("");
}

async function check(browser, page, pictures, firstScreenFile) {
  const problems = [];
  const url = pathToFileURL(resolve(page)).href;
  for (const [size, dark] of [[PHONE, false], [PHONE, true], [DESK, false], [DESK, true]]) {
    await browser.show(size, dark);
    await browser.open(url);
    const wide = await browser.value("document.documentElement.scrollWidth");
    if (wide > size.width) {
      const who = await browser.value(
        `[...document.querySelectorAll("body *")].filter((e) => (e.getBoundingClientRect().right > ${size.width} || e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && !e.matches(".table, .scroll")) && !e.parentElement.closest(".table, .scroll")).slice(-3).map((e) => e.outerHTML.slice(0, 200))`,
      );
      problems.push(`${wide} px wide on a screen of ${size.width} px: ${JSON.stringify(who)}`);
    }
    if (pictures) {
      const height = Math.min(8000, await browser.value("document.documentElement.scrollHeight"));
      const clip = { x: 0, y: 0, width: size.width, height, scale: 1 };
      const { data } = await browser.send("Page.captureScreenshot", { clip, captureBeyondViewport: true });
      const name = `${basename(page, ".html")}-${size.width}-${dark ? "dark" : "light"}.png`;
      writeFileSync(join(pictures, name), Buffer.from(data, "base64"));
    }
    const pale = await browser.value(PALE);
    if (pale.length > 0) problems.push(`too pale on ${size.width} px, ${dark ? "dark" : "light"}: ${pale.slice(0, 5)}`);
    if (size === PHONE) await readOnPhone(browser, problems);
    problems.push(...complaints(browser, url));
  }
  await browser.show(DESK);
  await browser.open(url);
  if (firstScreenFile) await compareFirstScreen(browser, firstScreenFile, problems);
  await fitsDesk(browser, problems);
  await readTop(browser, problems);
  await useTimeline(browser, problems);
  await openStage(browser, problems);
  await findWork(browser, problems);
  await useRanks(browser, problems);
  await useKernels(browser, problems);
  await sortTables(browser, problems);
  for (const size of [DESK, PHONE]) {
    await browser.show(size);
    await useFlame(browser, problems);
    await useRoofline(browser, problems);
  }
  await browser.show(DESK);
  await browser.value('document.querySelector(".theme").click()');
  const theme = await browser.value("document.documentElement.dataset.theme");
  if (theme !== "dark") problems.push(`the switch of light and dark gives ${theme}`);
  await printed(browser, problems);
  problems.push(...complaints(browser, url));
  const { data } = await browser.send("Page.printToPDF", { printBackground: true });
  const pdf = Buffer.from(data, "base64");
  if (!pdf.subarray(0, 5).equals(Buffer.from("%PDF-"))) problems.push("it cannot be printed");
  if (pictures) writeFileSync(join(pictures, `${basename(page, ".html")}.pdf`), pdf);
  return problems;
}

const args = process.argv.slice(2);
const option = (name) => (args.includes(name) ? args.splice(args.indexOf(name), 2)[1] : undefined);
const pictures = option("--pictures");
const firstScreenFile = option("--first-screen");
// The page of diff, whose tables are sorted and searched, and which is printed.
const paper = option("--paper");
if (args.length === 0) {
  console.error("Name the pages to open: browser.mjs [--pictures FOLDER] [--first-screen FILE] [--paper PAGE] PAGE...");
  process.exit(2);
}
const program = findChromium();
if (!program) {
  console.log("SKIPPED: pages in a browser: no chromium is on PATH");
  process.exit(77);
}
if (pictures) mkdirSync(pictures, { recursive: true });
const browser = new Browser(program);
const deadlineMs = PAGE_MS * (args.length + 1);
const late = setTimeout(() => {
  console.error(`The browser did not finish within ${deadlineMs / 1000} s.`);
  browser.end().finally(() => process.exit(1));
}, deadlineMs);
let failed = false;
try {
  await browser.start();
  for (const [at, page] of args.entries()) {
    const problems = await check(browser, page, pictures, at === 0 ? firstScreenFile : undefined);
    console.log(`${page}: ${problems.length === 0 ? "as it should be" : "NOT as it should be"}`);
    problems.forEach((problem) => console.log(`  ${problem}`));
    failed ||= problems.length > 0;
  }
  if (paper) {
    const problems = [];
    const url = pathToFileURL(resolve(paper)).href;
    await browser.show(DESK);
    await browser.open(url);
    await searchTables(browser, problems);
    await sortTables(browser, problems);
    await printed(browser, problems);
    problems.push(...complaints(browser, url));
    problems.forEach((problem) => console.log(`${paper}: ${problem}`));
    failed ||= problems.length > 0;
  }
} catch (error) {
  console.error(error);
  failed = true;
} finally {
  clearTimeout(late);
  await browser.end();
}
process.exit(failed ? 1 : 0);
