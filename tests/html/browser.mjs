// Opens pages in headless Chromium, uses them as a reader does, and checks what happens.
//
//   node tests/html/browser.mjs [--pictures FOLDER] PAGE...
//
// Ends with status 0 where all is well, 1 where something is not, and 77 where there is no Chromium.
import { spawn } from "node:child_process";
import { accessSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const PHONE = { width: 390, height: 800 };
const DESK = { width: 1280, height: 900 };
const DEADLINE_MS = 120_000;

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

  async key(key) {
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, text: key === "Enter" ? "\r" : key });
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
  const said = await browser.value(`${box}.querySelector("output").textContent`);
  if (!/ · .* · starts at [\d.]+ ms · takes [\d.]+ µs/.test(said)) problems.push(`a bar says: ${said}`);
  await browser.key("0");
  const all = await width();
  if (Math.abs(all - before) > 1) problems.push(`show all: ${before} -> ${all} px`);
}

async function useKernels(browser, problems) {
  const table = 'document.querySelector("#kernels")';
  if (!(await browser.value(`Boolean(${table})`))) {
    console.log("  no kernels: sorting and filtering are not checked");
    return;
  }
  const column = (at) =>
    browser.value(`[...${table}.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.cells[${at}].textContent)`);
  const click = (at) => browser.value(`${table}.tHead.rows[0].cells[${at}].querySelector("button").click()`);
  const numbers = async () => (await column(3)).map((cell) => Number(cell.replaceAll(",", "")));
  await click(3);
  let found = await numbers();
  if (found.some((value, i) => i > 0 && value > found[i - 1])) problems.push("calls do not sort down");
  await click(3);
  found = await numbers();
  if (found.some((value, i) => i > 0 && value < found[i - 1])) problems.push("calls do not sort up");
  const names = await column(1);
  const word = (names[0].match(/[a-z_]{4,}/i) ?? ["void"])[0];
  const type = (text) =>
    browser.value(`(() => { const i = document.querySelector(".filter input"); i.value = ${JSON.stringify(text)}; i.dispatchEvent(new Event("input")); })()`);
  await type(word);
  const left = await browser.value(
    `[...${table}.tBodies[0].rows].filter((r) => !r.hidden).every((r) => r.textContent.toLowerCase().includes(${JSON.stringify(word.toLowerCase())}))`,
  );
  if (!left) problems.push(`the filter ${word} leaves rows without it`);
  await type("no kernel has this name");
  if ((await column(1)).length > 0) problems.push("a filter that nothing matches leaves rows");
  await type("");
  if ((await column(1)).length !== names.length) problems.push("an empty filter hides rows");
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
  if (!/: [\d.]+ %, [\d,]+ samples$/.test(await said())) problems.push(`a frame says: ${await said()}`);
  await browser.value(`${box}.querySelector(".scroll").focus({preventScroll: true})`);
  await browser.key("0");
  if (Math.abs((await width()) - all) > 1) problems.push("0 does not show all frames");
  const before = await said();
  await browser.key("n");
  if ((await said()) === before || (await count(".picked")) !== 1) problems.push(`n does not step on from: ${before}`);
  await browser.key("p");
  if ((await said()) !== before) problems.push(`p does not step back to: ${before}`);
  await browser.key("Enter");
  if (Math.abs((await width()) - zoomed) > 1) problems.push("Enter does not show the frame");
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
  const percent = Number((await said()).match(/^\d+ of \d+ frames, ([\d.]+) % of the time$/)?.[1]);
  if (!(percent > 0 && percent <= 100.1) || !(await said()).startsWith(`${found} of ${frames} `)) problems.push(`a search says: ${await said()}`);
  await type("no frame has this name");
  if ((await count(".found")) > 0) problems.push("a search that nothing matches marks frames");
  await type("");
}

async function check(browser, page, pictures) {
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
    problems.push(...complaints(browser, url));
  }
  await browser.show(DESK);
  await useTimeline(browser, problems);
  await useKernels(browser, problems);
  for (const size of [DESK, PHONE]) {
    await browser.show(size);
    await useFlame(browser, problems);
  }
  await browser.show(DESK);
  await browser.value('document.querySelector(".theme").click()');
  const theme = await browser.value("document.documentElement.dataset.theme");
  if (theme !== "dark") problems.push(`the switch of light and dark gives ${theme}`);
  problems.push(...complaints(browser, url));
  const { data } = await browser.send("Page.printToPDF", { printBackground: true });
  const pdf = Buffer.from(data, "base64");
  if (!pdf.subarray(0, 5).equals(Buffer.from("%PDF-"))) problems.push("it cannot be printed");
  if (pictures) writeFileSync(join(pictures, `${basename(page, ".html")}.pdf`), pdf);
  return problems;
}

const args = process.argv.slice(2);
const pictures = args[0] === "--pictures" ? args.splice(0, 2)[1] : undefined;
if (args.length === 0) {
  console.error("Name the pages to open: browser.mjs [--pictures FOLDER] PAGE...");
  process.exit(2);
}
const program = findChromium();
if (!program) {
  console.log("SKIPPED: pages in a browser: no chromium is on PATH");
  process.exit(77);
}
if (pictures) mkdirSync(pictures, { recursive: true });
const browser = new Browser(program);
const late = setTimeout(() => {
  console.error(`The browser did not finish within ${DEADLINE_MS / 1000} s.`);
  browser.end().finally(() => process.exit(1));
}, DEADLINE_MS);
let failed = false;
try {
  await browser.start();
  for (const page of args) {
    const problems = await check(browser, page, pictures);
    console.log(`${page}: ${problems.length === 0 ? "as it should be" : "NOT as it should be"}`);
    problems.forEach((problem) => console.log(`  ${problem}`));
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
