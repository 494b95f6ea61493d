// What several pages use, and the workers behind them.

/** The element that has an id. @type {(id: string) => any} */
export const $ = (id) => document.getElementById(id);

/** The radio buttons of a name. @param {string} name */
export const radios = (name) => /** @type {HTMLInputElement[]} */ ([...document.getElementsByName(name)]);

/** The value of the one that is checked. @param {string} name */
export const chosen = (name) => radios(name).find((radio) => radio.checked)?.value ?? '';

/**
 * Shows what went wrong, in the place that the page has for it.
 * @param {string} id
 * @param {string} text
 */
export function showError(id, text) {
  $(id).textContent = text;
  $(id).hidden = false;
}

/** Fills the page's row of facts: what each is called, and what it is. @param {Record<string, string>} facts */
export function showFacts(facts) {
  const cells = Object.entries(facts).map(([name, value]) => {
    const cell = document.createElement('div');
    cell.innerHTML = '<dt></dt><dd></dd>';
    cell.children[0].textContent = name;
    cell.children[1].textContent = value;
    return cell;
  });
  $('facts').replaceChildren(...cells);
}

/**
 * A text in parts: strings, and spans where a pattern matches, whose class is `t-` and the name of the group that does.
 * @param {string} text
 * @param {RegExp} pattern all of it is named groups
 */
export function coloured(text, pattern) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const [name] = Object.entries(match.groups ?? {}).find(([, found]) => found !== undefined) ?? [''];
    const span = document.createElement('span');
    span.className = `t-${name}`;
    span.textContent = match[0];
    parts.push(text.slice(end, match.index), span);
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

/** A number with its noun. @param {number} count @param {string} noun */
export const counted = (count, noun) => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;

/** @param {number} share from 0 to 1 */
export const percent = (share) => `${share > 0.9995 ? 100 : share < 0.0005 ? 0 : (100 * share).toFixed(1)}\u00a0%`; // no line ends in between

/**
 * The two builds that the site has of a module.
 * @param {string} name without what comes after the dot
 * @param {string | URL} base
 */
export const builds = (name, base) => ({
  simd128: new URL(`${name}.wasm`, base),
  'relaxed-simd': new URL(`${name}.relaxed.wasm`, base),
});

/**
 * The bytes of the build that was fetched, if the browser tells.
 * @param {string} name
 * @returns {number | undefined}
 */
export function fetchedBytes(name) {
  const files = /** @type {PerformanceResourceTiming[]} */ (performance.getEntriesByType('resource'));
  return (
    files.find((file) => new RegExp(`/${name}(\\.relaxed)?\\.wasm$`).test(file.name))?.decodedBodySize || undefined
  );
}

/**
 * Microseconds of a run: the least of some rounds, since a page is never alone and its first runs are in code that is
 * not optimised yet.
 * @param {() => void} run
 * @param {number} rounds
 * @param {number} runs of each round, long enough for the clock
 */
export function microseconds(run, rounds, runs) {
  let least = Infinity;
  for (let round = 0; round < rounds; round++) {
    const begin = performance.now();
    for (let i = 0; i < runs; i++) run();
    least = Math.min(least, ((performance.now() - begin) / runs) * 1000);
  }
  return least;
}

/** Lets messages in, in the midst of work; a timer would wait for 4 ms each time. */
export function breathe() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(undefined);
    };
    port2.postMessage(null);
  });
}

/**
 * A generator of numbers from 0 to 1 that the seed determines, mulberry32; Math.random takes none.
 * @param {number} seed
 */
export function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61);
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}
