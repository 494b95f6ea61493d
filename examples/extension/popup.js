// A drawing of 8 x 8 squares, read here by the popup itself, and by the background at a click.

import { load } from './model.js';

const [pad, here, there] = ['pad', 'here', 'there'].map((id) => document.getElementById(id));
const image = new Float32Array(64);
const digit = (logits) => Array.from(logits).indexOf(Math.max(...logits));

for (let i = 0; i < 64; i++) pad.append(document.createElement('i'));
const loading = load();

async function read() {
  const model = await loading;
  here.textContent = digit(model.run({ image }).result);
  there.textContent = '';
}

function draw(target, buttons) {
  const at = Array.prototype.indexOf.call(pad.children, target);
  if (!buttons || at < 0) return;
  image[at] = 1;
  target.className = 'on';
  read().catch((error) => (here.textContent = error.message));
}
pad.addEventListener('pointerdown', (event) => {
  event.target.releasePointerCapture(event.pointerId);
  draw(event.target, 1);
});
pad.addEventListener('pointerover', (event) => draw(event.target, event.buttons));

document.getElementById('ask').addEventListener('click', async () => {
  const { logits, error } = await chrome.runtime.sendMessage({ image: Array.from(image) });
  there.textContent = error ?? digit(logits);
});

document.getElementById('clear').addEventListener('click', () => {
  image.fill(0);
  for (const square of pad.children) square.className = '';
  here.textContent = there.textContent = '';
});
