// What the page can do beyond reading: timelines and flame graphs zoom and can be searched, kernels can be sorted and
// filtered and lead to their bars and points, and light and dark can be switched. Nothing here is needed to read it.
(() => {
  // Names are shortened in the middle.
  const CHAR_PX = 6.5;
  const cut = (name, chars) => (name.length > chars ? `${name.slice(0, Math.max(1, chars - 1))}…` : name);
  const wordsOf = (text) => text.toLowerCase().split(/[\s…]+/).filter(Boolean);
  const hasAll = (text, words) => words.length > 0 && words.every((word) => text.includes(word));

  const themes = () => {
    const dark = () => {
      const chosen = document.documentElement.dataset.theme;
      return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    };
    const button = make("button", { type: "button", className: "theme" });
    const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
      name();
    });
    name();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
    document.body.append(button);
  };

  // On a narrow screen the contents are one line that opens; on a wide one they are always there.
  const contents = () => {
    const list = document.querySelector("nav details");
    const narrow = matchMedia("(max-width: 60rem)");
    const fold = () => { list.open = !narrow.matches; };
    narrow.addEventListener("change", fold);
    list.addEventListener("click", ({ target }) => { if (target.closest("a") && narrow.matches) list.open = false; });
    fold();
  };

  const LONGEST_PICTURE_PX = 4e6;
  const SVG = "http://www.w3.org/2000/svg";

  const timeline = (box) => {
    const length = Number(box.dataset.length);
    const scroll = box.querySelector(".scroll");
    const picture = box.querySelector(".steps");
    const axis = box.querySelector(".axis");
    const height = picture.getAttribute("height");
    const names = [];
    for (let next = box.nextElementSibling; next && next.tagName !== "H3"; next = next.nextElementSibling) {
      if (next.matches("details.names")) {
        for (const row of next.querySelectorAll("tbody tr")) {
          names.push([row.cells[0].textContent, row.cells[1].textContent]);
        }
        break;
      }
    }
    let zoom = 1;
    const help = "Point at a bar or tap it. Ctrl+wheel or pinch zooms. After a click in the picture: + and - zoom, 0 shows all, n and p step through the bars.";
    const said = make("output", { textContent: box.closest(".rank + .rank") ? "" : help });
    const button = (label, text, act) => {
      const made = make("button", { type: "button", textContent: text });
      made.setAttribute("aria-label", label);
      made.addEventListener("click", act);
      return made;
    };

    const shown = (ns) => (length >= 1e6 ? [ns / 1e6, "ms"] : [ns / 1e3, "us"]);
    const trimmed = (value) => String(Number(value.toFixed(6)));
    const ticks = () => {
      const width = picture.clientWidth || 1;
      const from = (scroll.scrollLeft / width) * length;
      const to = from + (scroll.clientWidth / width) * length;
      const rough = (to - from) / Math.max(3, Math.floor(scroll.clientWidth / 110));
      const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
      const step = Math.max(1, [1, 2, 5, 10].map((by) => by * power).find((ns) => ns >= rough) || rough);
      axis.replaceChildren();
      // A label left of what is seen would be cut, and read as another number.
      for (let at = Math.ceil((from - step / 1e3) / step) * step; at <= to && at < length; at += step) {
        const x = `${(at * 100) / length}%`;
        const line = document.createElementNS(SVG, "line");
        const label = document.createElementNS(SVG, "text");
        for (const [name, value] of [["x1", x], ["x2", x], ["y1", "20"], ["y2", height]]) line.setAttribute(name, value);
        for (const [name, value] of [["x", x], ["dx", "3"], ["y", "13"]]) label.setAttribute(name, value);
        const [value, unit] = shown(at);
        label.textContent = `${trimmed(value)} ${unit}`;
        axis.append(line, label);
      }
    };
    // Where a picture is zoomed, a bar begins left of what is seen, or has room for its name.
    const NAME_Y = 12;
    const FEWEST_CHARS = 8;
    const FEWEST_OF_RANGE = 4;
    const part = (element) => ["x", "width"].map((name) => parseFloat(element.getAttribute(name)) / 100);
    const ranges = [...picture.querySelectorAll("svg.range")].map((range) => {
      const label = range.querySelector("text");
      range.dataset.name = label.textContent;
      return [label, range.dataset.name, ...part(range)];
    });
    const lanes = [...picture.querySelectorAll(".lane")].map((lane) => {
      const bars = [...lane.querySelectorAll("rect[data-n]")].map((rect) => [names[rect.dataset.n]?.[0] ?? "", ...part(rect)]);
      const labels = document.createElementNS(SVG, "g");
      labels.setAttribute("class", "bar-names");
      lane.append(labels);
      return [labels, bars];
    });
    const labelBars = () => {
      const [width, left] = [picture.clientWidth || 1, scroll.scrollLeft];
      const right = left + scroll.clientWidth;
      for (const [label, name, x, wide] of ranges) {
        const from = Math.max(left, x * width);
        label.setAttribute("x", String(3 + from - x * width));
        // A letter or two say nothing.
        const room = Math.min(right, (x + wide) * width) - from - 3;
        const fits = room >= CHAR_PX * Math.min(FEWEST_OF_RANGE, name.length);
        // Capitals are wider.
        for (let chars = Math.floor(room / CHAR_PX); fits; chars -= 1) {
          label.textContent = cut(name, chars);
          if (chars <= 2 || label.getComputedTextLength() <= room) break;
        }
        label.setAttribute("visibility", fits ? "visible" : "hidden");
      }
      for (const [labels, bars] of lanes) {
        const shown = [];
        for (const [name, x, wide] of bars) {
          const from = Math.max(left, x * width);
          const chars = Math.floor((Math.min(right, (x + wide) * width) - from - 6) / CHAR_PX);
          if (chars < Math.min(FEWEST_CHARS, name.length) || !name) continue;
          const label = document.createElementNS(SVG, "text");
          label.setAttribute("x", String(from + 3));
          label.setAttribute("y", String(NAME_Y));
          label.textContent = cut(name, chars);
          shown.push(label);
        }
        labels.replaceChildren(...shown);
      }
    };
    const drawn = () => {
      ticks();
      labelBars();
    };
    let waits = false;
    const drawnSoon = () => {
      if (waits) return;
      waits = true;
      requestAnimationFrame(() => { waits = false; drawn(); });
    };

    // Zooms so that what is at `x` pixels in the box stays there.
    const zoomAlone = (wanted, x) => {
      const most = Math.max(1, Math.min(length / 100, LONGEST_PICTURE_PX / scroll.clientWidth));
      const before = picture.clientWidth || 1;
      const at = (scroll.scrollLeft + x) / before;
      zoom = Math.min(most, Math.max(1, wanted));
      picture.style.width = `${zoom * 100}%`;
      scroll.scrollLeft = at * picture.clientWidth - x;
      box.dataset.zoom = String(zoom);
      drawnSoon();
    };
    // Pictures of several ranks move together.
    const moved = () => {
      box.dispatchEvent(new CustomEvent("moved", { bubbles: true, detail: { zoom, left: scroll.scrollLeft } }));
    };
    // What stays in its place: the chosen bar where it is seen, else the middle.
    let picked = null;
    const isSeen = (rect) => {
      const { left, right } = scroll.getBoundingClientRect();
      const bar = rect?.getBoundingClientRect();
      return Boolean(bar) && bar.right > left && bar.left < right;
    };
    const kept = () => {
      const { left, right } = scroll.getBoundingClientRect();
      const bar = picked?.getBoundingClientRect();
      return (isSeen(picked) ? (Math.max(bar.left, left) + Math.min(bar.right, right)) / 2 : (left + right) / 2) - left;
    };
    const zoomTo = (wanted, x = kept()) => {
      zoomAlone(wanted, x);
      moved();
    };
    // What follows does not lead: the other picture may have moved on meanwhile.
    let follows = false;
    box.addEventListener("follow", ({ detail }) => {
      const before = scroll.scrollLeft;
      if (detail.zoom !== zoom) zoomAlone(detail.zoom, 0);
      scroll.scrollLeft = detail.left;
      follows = scroll.scrollLeft !== before;
    });

    const ns = (element, name) => Math.round((parseFloat(element.getAttribute(name)) / 100) * length);
    const placeOf = (rect) => rect.closest("svg.range") ?? rect;
    const tell = (rect) => {
      const range = rect.closest("svg.range");
      const place = placeOf(rect);
      const start = ns(place, "x");
      const takes = ns(place, "width");
      // Samples of many steps have no begin and no end in this one.
      const samples = range && range.querySelector("title");
      if (samples) {
        const [from, to] = [start, start + takes].map((at) => (at / 1e6).toFixed(1));
        said.replaceChildren(
          make("bdi", { textContent: samples.textContent }),
          ` · host samples at ${from} to ${to} ms of such a step`,
        );
        return;
      }
      const [name, kind] = range
        ? [range.dataset.name, "range on the host"]
        : rect.closest(".gaps")
          ? rect.matches(".w-other")
            ? ["work of another step or stage", "not of this step"]
            : [rect.matches(".g-launch") ? "launch gap" : "other idle time", "no GPU work of it"]
          : names[rect.dataset.n] || ["(name not in the list)", rect.getAttribute("class").replace("k-", "").replace("picked", "")];
      const isolated = make("bdi", { textContent: name });
      said.replaceChildren(
        isolated,
        ` · ${rect.matches(".w-waiting") ? "waiting for the other rank" : kind} · starts at ${(start / 1e6).toFixed(6)} ms · takes ${(takes / 1e3).toFixed(3)} us`,
      );
    };
    // Bars can be narrower than a pixel: what is chosen has a band over all lanes.
    const band = document.createElementNS(SVG, "rect");
    for (const [name, value] of [["class", "band"], ["height", height], ["visibility", "hidden"]]) band.setAttribute(name, value);
    const pick = (rect) => {
      picked?.classList.remove("picked");
      picked = rect;
      rect.classList.add("picked");
      for (const name of ["x", "width"]) band.setAttribute(name, placeOf(rect).getAttribute(name));
      band.setAttribute("visibility", "visible");
      tell(rect);
    };
    const byStart = [...picture.querySelectorAll("rect")]
      .filter((rect) => rect.closest(".lane"))
      .sort((a, b) => parseFloat(a.getAttribute("x")) - parseFloat(b.getAttribute("x")));
    let marked = [];
    picture.append(band);
    const FEWEST_PX = 3;
    const WANTED_PX = 12;
    const show = (rect) => {
      pick(rect);
      tellMatches();
      // A match that is too narrow to be seen is made wider.
      const wide = rect.getBoundingClientRect().width;
      if (marked.length && wide < FEWEST_PX) zoomTo((zoom * WANTED_PX) / Math.max(wide, 1e-3));
      const { left, right } = scroll.getBoundingClientRect();
      const bar = rect.getBoundingClientRect();
      if (bar.left < left || bar.left > right) scroll.scrollLeft += bar.left - (left + right) / 2;
    };
    // From what is chosen, where that is seen; else from the edge of what is seen.
    const step = (by) => {
      const among = marked.length ? marked : byStart;
      if (!among.length) return;
      const start = (rect) => rect.getBoundingClientRect().left;
      const { left, right } = scroll.getBoundingClientRect();
      const at = among.indexOf(picked);
      let next;
      if (at >= 0 && isSeen(picked)) next = among[at + by];
      else {
        const seen = isSeen(picked) ? start(picked) : null;
        next = by > 0
          ? among.find((rect) => start(rect) >= (seen ?? left - 0.5))
          : among.findLast((rect) => start(rect) <= (seen ?? right));
      }
      show(next ?? among.at(by > 0 ? -1 : 0));
    };
    const find = make("input", { type: "search", placeholder: "Find GPU work" });
    find.setAttribute("aria-label", "Mark the GPU work whose name contains a text");
    const count = make("output", { className: "count" });
    const tellMatches = () => {
      const takes = marked.reduce((sum, rect) => sum + ns(rect, "width"), 0);
      const at = marked.indexOf(picked);
      count.textContent = !marked.length
        ? "No match"
        : `${marked.length} of ${byStart.length} bars of GPU work, ${(takes / 1e6).toFixed(3)} ms; ${at < 0 ? "Enter and Shift+Enter step through them" : `this is match ${at + 1}`}`;
      count.hidden = wordsOf(find.value).length === 0;
    };
    const mark = () => {
      const words = wordsOf(find.value);
      const is = names.map(([name, kind]) => hasAll(`${name} ${kind}`.toLowerCase(), words));
      marked = byStart.filter((rect) => is[rect.dataset.n]);
      const found = new Set(marked);
      byStart.forEach((rect) => rect.classList.toggle("found", found.has(rect)));
      tellMatches();
    };
    find.addEventListener("input", mark);
    find.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !marked.length) return;
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    });
    box.addEventListener("find", (event) => {
      find.value = event.detail;
      mark();
      if (marked.length) show(marked[0]);
    });
    picture.addEventListener("pointerover", (event) => {
      if (event.pointerType === "mouse" && event.target.matches("rect")) tell(event.target);
    });
    picture.addEventListener("pointerleave", () => { if (picked) tell(picked); });
    picture.addEventListener("click", (event) => {
      if (!event.target.matches("rect")) return;
      pick(event.target);
      tellMatches();
    });
    const inBox = (x) => x - scroll.getBoundingClientRect().left;
    picture.addEventListener("dblclick", (event) => zoomTo(zoom * 2, inBox(event.clientX)));
    // The wheel alone scrolls the page, as everywhere.
    scroll.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomTo(zoom * 1.002 ** -event.deltaY, inBox(event.clientX));
    }, { passive: false });
    let drag = null;
    scroll.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) drag = [event.clientX, scroll.scrollLeft];
    });
    addEventListener("pointermove", (event) => {
      if (drag) scroll.scrollLeft = drag[1] - (event.clientX - drag[0]);
    });
    addEventListener("pointerup", () => { drag = null; });
    let pinch = null;
    const apart = (touches) => Math.hypot(touches[0].clientX - touches[1].clientX, touches[0].clientY - touches[1].clientY);
    scroll.addEventListener("touchstart", (event) => {
      pinch = event.touches.length === 2 ? [apart(event.touches), zoom] : null;
    }, { passive: true });
    scroll.addEventListener("touchmove", (event) => {
      if (!pinch || event.touches.length !== 2) return;
      event.preventDefault();
      const middle = (event.touches[0].clientX + event.touches[1].clientX) / 2;
      zoomTo(pinch[1] * (apart(event.touches) / Math.max(1, pinch[0])), inBox(middle));
    }, { passive: false });
    // Also of a button that was clicked; what is typed in the search is text.
    box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target === find) return;
      const act = {
        "+": () => zoomTo(zoom * 2), "=": () => zoomTo(zoom * 2), "-": () => zoomTo(zoom / 2),
        0: () => zoomTo(1), n: () => step(1), p: () => step(-1),
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    scroll.addEventListener("scroll", () => {
      drawnSoon();
      if (!follows) moved();
      follows = false;
    }, { passive: true });
    addEventListener("resize", drawnSoon);
    // A folded picture has no width.
    box.closest("details")?.addEventListener("toggle", drawnSoon);
    scroll.setAttribute("aria-label", "Timeline: arrow keys pan, + and - zoom, 0 shows all, n and p step through");
    box.prepend(make("div", { className: "tools" },
      button("Zoom in", "+", () => zoomTo(zoom * 2)),
      button("Zoom out", "−", () => zoomTo(zoom / 2)),
      button("Show all", "All", () => zoomTo(1)),
      find,
      count,
      said));
    tellMatches();
    drawn();
  };

  // The timelines of two ranks: one scale, and a choice of ranks.
  const together = (group) => {
    const ranks = [...group.querySelectorAll(".rank")];
    const boxes = [...group.querySelectorAll(".timeline")];
    const others = (event) => boxes.filter((box) => box !== event.target);
    group.addEventListener("moved", (event) => {
      for (const box of others(event)) box.dispatchEvent(new CustomEvent("follow", { detail: event.detail }));
    });
    group.addEventListener("find", (event) => {
      for (const box of others(event)) box.dispatchEvent(new CustomEvent("find", { detail: event.detail }));
    });
    const tools = make("div", { className: "tools rank-choice" });
    for (const of of [null, ...ranks]) {
      const button = make("button", { type: "button", textContent: of?.querySelector("h4").textContent ?? "both ranks" });
      button.setAttribute("aria-pressed", String(of === null));
      button.addEventListener("click", () => {
        for (const rank of ranks) rank.hidden = of !== null && rank !== of;
        group.classList.toggle("both", of === null);
        for (const other of tools.children) other.setAttribute("aria-pressed", String(other === button));
      });
      tools.append(button);
    }
    group.prepend(tools);
    group.classList.add("both");
  };

  const sortable = (table) => {
    sorts(table);
    const rows = [...table.tBodies[0].rows];
    const [text, number] = [cellText, cellNumber];
    const full = (row) => row.querySelector("[title]")?.title ?? row.cells[0].textContent;
    const words = rows.map((row) => [row, `${full(row)} ${row.dataset.id ?? ""} ${row.textContent}`.toLowerCase()]);
    const [input, found] = filterField();
    const column = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === "Stage");
    // Rows that hardly matter are one line until they are asked for; a filter looks through them, too.
    const total = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === "Total (ms)");
    const sums = new Map();
    // Operators, warm-ups and what ran in no range share a tab.
    const outside = Symbol();
    const stageOf = (row) => ("outside" in row.dataset ? outside : text(row, column));
    for (const row of column < 0 ? [] : rows) {
      const stage = stageOf(row);
      sums.set(stage, (sums.get(stage) ?? 0) + Math.max(0, number(row, total)));
    }
    // The first stage and those with a part of the time have tabs of their own; set-up can have many short ones.
    const LEAST_OF_ALL = 0.01;
    const all = [...sums.values()].reduce((sum, ms) => sum + ms, 0);
    const stages = [...sums].filter(([stage]) => stage !== outside);
    const small = stages.slice(1).filter(([, ms]) => ms < all * LEAST_OF_ALL).map(([stage]) => stage);
    const others = new Set(small.length > 1 ? small : []);
    const tabNames = [null, ...stages.map(([stage]) => stage).filter((stage) => !others.has(stage)), ...(others.size ? [others] : []), ...(sums.has(outside) ? [outside] : [])];
    const apart = rows.filter((row) => stageOf(row) === outside).map((row) => text(row, column));
    const outsideName = new Set(apart).size === 1 ? apart[0] : "outside the stages";
    let stage = null;
    const more = make("button", { type: "button", className: "more" });
    let open = false;
    const filter = () => {
      const wanted = filterWords(input);
      let [visible, small, sum] = [0, 0, 0];
      for (const [row, has] of words) {
        const is = (stage === null || stage === stageOf(row) || (stage === others && others.has(stageOf(row)))) && wanted.every((word) => has.includes(word));
        const folds = is && !wanted.length && row.matches(".small");
        small += folds ? 1 : 0;
        sum += folds ? Math.max(0, number(row, total)) : 0;
        row.hidden = !is || (folds && !open);
        visible += row.hidden ? 0 : 1;
      }
      found.textContent = visible || small ? `${visible} of ${rows.length} rows${small && !open ? `; ${small} more below 0.1 %` : ""}` : "No kernel matches all of these words";
      more.hidden = small === 0;
      const kernels = `${small} more ${small === 1 ? "kernel" : "kernels"}`;
      const what = `${kernels}, each below 0.1 % of the kernel time of its stage: ${sum.toFixed(3)} ms together`;
      more.textContent = open ? `Hide ${what.replace(" more", "")}` : `Show ${what}`;
      more.setAttribute("aria-expanded", String(open));
    };
    more.addEventListener("click", () => {
      open = !open;
      filter();
    });
    input.addEventListener("input", filter);
    const tabs = make("div", { className: "tabs" });
    tabs.setAttribute("role", "group");
    tabs.setAttribute("aria-label", "Stages");
    for (const of of tabNames) {
      const name = of === others ? `${others.size} other stages` : of === outside ? outsideName : of ?? (sums.has(outside) ? "all" : "all stages");
      const tab = make("button", { type: "button" }, make("bdi", { textContent: name }));
      tab.setAttribute("aria-pressed", String(of === null));
      tab.addEventListener("click", () => {
        stage = of;
        for (const other of tabs.children) other.setAttribute("aria-pressed", String(other === tab));
        filter();
      });
      tabs.append(tab);
    }
    // A link leads to its row also where the row is hidden.
    addEventListener("hashchange", () => {
      const row = rows.find((row) => row.id && `#${row.id}` === location.hash);
      if (!row?.hidden) return;
      input.value = "";
      open ||= row.matches(".small");
      tabs.firstChild.click();
      row.scrollIntoView();
    });
    const frame = table.closest(".table");
    frame.before(make("div", { className: "filter" }, ...(sums.size > 1 ? [tabs] : []), input, found));
    frame.after(more);
    filter();
    // What is copied has the names in full.
    table.addEventListener("copy", (event) => {
      const chosen = getSelection();
      const copied = rows.filter((row) => !row.hidden && chosen.containsNode(row.cells[0], true));
      if (!copied.length) return;
      const cells = (row) => [full(row), ...[...row.cells].slice(1).map((cell) => cell.textContent)];
      const name = copied[0].cells[0];
      const isName = name.contains(chosen.anchorNode) && name.contains(chosen.focusNode);
      // A part of a name is what it is.
      if (isName && chosen.toString().trim() !== name.textContent) return;
      event.clipboardData.setData("text/plain", isName ? full(copied[0]) : copied.map((row) => cells(row).join("\t")).join("\n"));
      event.preventDefault();
    });
  };

  // A link of a kernel leads to the picture, where the kernel is marked then.
  const kernelLinks = () => document.addEventListener("click", (event) => {
    const link = event.target.closest("table.sortable a[href^='#']");
    const target = link && document.querySelector(link.hash);
    if (!target) return;
    const name = link.closest("tr").cells[0].textContent.replace(/ #\d+$/, "");
    target.dispatchEvent(new CustomEvent("find", { bubbles: true, detail: name }));
    const row = link.closest("tr").id;
    for (const mark of target.querySelectorAll(".point, tr[data-n]")) {
      const to = mark.closest("a") ?? mark.querySelector("a");
      mark.classList.toggle("found", to !== null && to.hash === `#${row}`);
    }
  });

  // A point says what it is, and is marked in the list next to the picture; the list marks its points.
  const roofline = (box) => {
    const said = make("output", { textContent: "Point at a kernel or tap it: its name, its share of the stage, what it attains and loses up to, what bounds it, and its rates appear here. A click leads to its row." });
    box.querySelector(".chart")?.after(said);
    const pick = (number) => {
      for (const mark of box.querySelectorAll("[data-n]")) mark.classList.toggle("picked", mark.dataset.n === number);
      const point = box.querySelector(`.point[data-n="${number}"]`);
      said.replaceChildren(make("bdi", { textContent: point?.textContent ?? "It is below the picture." }));
    };
    const over = ({ target }) => {
      const mark = target.closest("[data-n]");
      if (mark) pick(mark.dataset.n);
    };
    box.addEventListener("pointerover", over);
    box.addEventListener("focusin", over);
    // A finger cannot point before it chooses: the first tap says what the point is, the second one follows its link.
    let tapped = null;
    box.addEventListener("pointerup", ({ pointerType, target }) => {
      if (pointerType === "mouse") tapped = target;
    });
    box.addEventListener("click", (event) => {
      if (!event.target.matches(".point") || tapped === event.target) return;
      tapped = event.target;
      over(event);
      event.preventDefault();
    });
  };

  // On a narrow screen the cells of a row stand below each other, each with what it is. The host times of ranks are compared down a column.
  const labelled = (table) => {
    if (table.matches(".heat:not(#ranks-table), .points")) return;
    const heads = [...(table.tHead?.rows[0].cells ?? [])].map((head) => head.textContent);
    // So many characters in a row fit a phone.
    const longest = (texts) => Math.max(0, ...texts.map((text) => text.length));
    const width = (head, at) =>
      longest([...head.split(" "), ...[...table.tBodies[0].rows].map((row) => row.cells[at]?.textContent ?? "")]);
    const chars = heads.map(width).reduce((sum, most) => sum + most, 0);
    if (chars <= 34 && !table.querySelector(".bar")) return;
    table.classList.add("labelled");
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, at) => {
        // `2 GPUs` needs no label.
        if (at > 0 && !cell.textContent.endsWith(` ${heads[at]}`)) cell.dataset.label = heads[at];
        if (at === 0 || cell.textContent.length > 24) cell.classList.add("wide");
      });
    }
  };

  // A frame of a flame graph fills the width when it is chosen; those that hold a text can be marked.
  const flame = (box) => {
    const scroll = box.querySelector(".scroll");
    const picture = box.querySelector(".stacks");
    // In the order of the document a frame comes directly before those that it called.
    const frames = [...picture.querySelectorAll("svg.frame")];
    const said = make("output", { textContent: "Click a frame to zoom into it and its callees." });
    const part = (frame, name) => parseFloat(frame.getAttribute(name));
    const about = (frame) => frame.querySelector("title").textContent;
    const say = (text) => said.replaceChildren(make("bdi", { textContent: text }));
    // A frame that begins left of the part shown has its name at the edge of that.
    const label = () => {
      // Of what is folded, no width is known.
      if (!picture.clientWidth) return;
      const [from, width] = [scroll.scrollLeft, picture.clientWidth / 100];
      for (const frame of frames) {
        const [left, right] = [part(frame, "x"), part(frame, "x") + part(frame, "width")];
        const hidden = right * width > from ? Math.max(0, from - left * width) : 0;
        const text = frame.querySelector("text");
        text.setAttribute("x", String(3 + hidden));
        text.dataset.name ??= text.textContent;
        const name = folded(frame);
        const chars = Math.floor(((right - left) * width - hidden - 4) / CHAR_PX);
        // A letter or two say nothing.
        text.textContent = chars > 2 ? cut(name ? `${name} in ${text.dataset.name}` : text.dataset.name, chars) : "";
      }
    };
    scroll.addEventListener("scroll", label);
    addEventListener("resize", label);
    addEventListener("toggle", label, true);
    const show = (x, width) => {
      picture.style.width = `${1e4 / Math.max(width, 0.01)}%`;
      scroll.scrollLeft = (x / 100) * picture.clientWidth;
      box.dataset.from = String(x);
      label();
    };
    // Of several frames in one, the tooltip has the names, and the picture that of the innermost: what was searched for is
    // shown in front of it.
    let wanted = [];
    let together = "";
    const folded = (frame) => {
      const [shown, ...names] = about(frame).split("\n");
      const is = (text) => wanted.length > 0 && wanted.some((word) => text.toLowerCase().includes(word));
      return is(shown) ? "" : names.filter(is).at(-1) ?? "";
    };
    let picked = null;
    const pick = (frame) => {
      if (picked) picked.classList.remove("picked");
      picked = frame;
      frame.classList.add("picked");
      const name = folded(frame);
      const marked = frames.filter((other) => other.matches(".found"));
      const of = marked.indexOf(frame) + 1;
      const match = of > 0 ? `match ${of} of ${marked.length} (${together} % together): ` : "";
      say(`${match}${name ? `${name} in ` : ""}${about(frame).split("\n")[0]}`);
    };
    const zoomInto = (frame) => {
      if (!frame) return;
      show(part(frame, "x"), part(frame, "width"));
      pick(frame);
    };
    const find = make("input", { type: "search", placeholder: "Find a function or a file" });
    find.setAttribute("aria-label", "Mark the frames that contain a text");
    find.addEventListener("input", () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      wanted = words;
      let [found, percent, until] = [0, 0, -1];
      for (const frame of frames) {
        const text = about(frame).toLowerCase();
        const is = words.length > 0 && words.every((word) => text.includes(word));
        frame.classList.toggle("found", is);
        found += is ? 1 : 0;
        // What a marked frame called is part of its time already.
        if (!is || part(frame, "x") < until - 1e-3) continue;
        percent += part(frame, "width");
        until = part(frame, "x") + part(frame, "width");
      }
      label();
      together = percent.toFixed(1);
      if (words.length > 0) say(found ? `${found} of ${frames.length} frames, ${together} % of the time; Enter and Shift+Enter step through them` : "No match");
    });
    find.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !frames.some((frame) => frame.matches(".found"))) return;
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    });
    const step = (by) => {
      const marked = frames.filter((frame) => frame.matches(".found"));
      const among = marked.length > 0 ? marked : frames;
      const at = among.indexOf(picked);
      const next = among[at < 0 ? 0 : Math.min(among.length - 1, Math.max(0, at + by))];
      pick(next);
      const x = (part(next, "x") / 100) * picture.clientWidth;
      if (x < scroll.scrollLeft || x > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = x;
    };
    picture.addEventListener("click", (event) => zoomInto(event.target.closest("svg.frame")));
    scroll.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const act = {
        0: () => show(0, 100), n: () => step(1), p: () => step(-1), Enter: () => zoomInto(picked),
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    scroll.setAttribute("aria-label",
      "Flame graph: arrow keys pan, n and p step through frames, Enter shows one, 0 shows all");
    const all = make("button", { type: "button", textContent: "All" });
    all.setAttribute("aria-label", "Show all frames");
    all.addEventListener("click", () => show(0, 100));
    box.prepend(make("div", { className: "tools" }, all, find, said));
    label();
  };

  themes();
  contents();
  document.querySelectorAll(".timeline").forEach(timeline);
  document.querySelectorAll(".ranks").forEach(together);
  document.querySelectorAll(".flame").forEach(flame);
  document.querySelectorAll(".roofline").forEach(roofline);
  document.querySelectorAll("table").forEach(labelled);
  document.querySelectorAll("table.sortable").forEach(sortable);
  [...document.querySelectorAll("table")].filter(ofNumbers).forEach(sorts);
  kernelLinks();
})();
