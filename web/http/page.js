// The page that a browser gets: what goes in and out of the model, and a form to try it. It has no script: the answer
// comes into a frame.

import { expected, isDynamic } from './slots.js';

/** @typedef {import('./slots.js').Slot} Slot */

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
code, textarea, table { font-family: ui-monospace, monospace; font-size: 0.9rem; }
td { padding: 0 1.5rem 0 0; overflow-wrap: anywhere; }
fieldset { border: 1px solid #8888; border-radius: 0.5rem; margin: 0 0 1rem; padding: 0.5rem 1rem 1rem; }
textarea, iframe { box-sizing: border-box; width: 100%; padding: 0.5rem; }
textarea, iframe { border: 1px solid #8888; border-radius: 0.5rem; }
textarea { display: block; margin-bottom: 0.5rem; }
button { font: inherit; padding: 0.4rem 1.5rem; border-radius: 0.5rem; border: 1px solid #8888; }
iframe { height: 14rem; margin-top: 1rem; }`;

export const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-src 'self'; base-uri 'none'";

/** @param {Slot} slot */
function field(slot) {
  const { name, count, components } = slot;
  const numbers = count / components;
  const many = isDynamic(slot)
    ? `up to ${numbers} numbers, as JSON`
    : numbers === 1
      ? 'a number'
      : `${numbers} numbers`;
  const hint = many + (components > 1 ? ', each as [real, imaginary]' : '');
  const label = escaped(name);
  return `<fieldset><legend><code>${label}: ${escaped(expected(slot))}</code></legend>
<textarea name="${label}" rows="3" placeholder="${hint}" aria-label="${label}: ${hint}"></textarea>
<label>or a file (.npy, .json, .txt): <input type="file" name="${label}"></label></fieldset>`;
}

/** @param {Slot[]} slots */
const rows = (slots) =>
  slots.map((slot) => `<tr><td>${escaped(slot.name)}</td><td>${escaped(expected(slot))}</td></tr>`).join('\n');

/**
 * @param {string} name of the model
 * @param {Slot[]} inputs
 * @param {Slot[]} results
 */
export const page = (name, inputs, results) => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(name)}</title>
<style>${STYLE}</style>
<h1>${escaped(name)}</h1>
<form method="post" enctype="multipart/form-data" target="answer">
${inputs.map(field).join('\n')}
<button>Run</button>
</form>
<iframe name="answer" title="The answer"></iframe>
<h2>Results</h2>
<table>
${rows(results)}
</table>
<p>Programs send <code>POST</code> with JSON, <code>.npy</code>, <code>.npz</code> or raw bytes,
and ask for one of these with <code>Accept</code>.</p>
</html>
`;
