// The answer on the page: ten bars, the digit, how sure the model is, how long it took.

import { $, percent } from '../shared.js';

const bars = Array.from({ length: 10 }, (_, digit) => addBar(digit));
let announce = 0;

/** @param {number} digit */
function addBar(digit) {
  const item = document.createElement('li');
  item.innerHTML =
    `<span class="name">${digit}</span><span class="track"><span class="fill"></span></span><span ` +
    `class="value"></span>`;
  $('bars').append(item);
  return {
    item,
    fill: /** @type {HTMLElement} */ (item.querySelector('.fill')),
    value: /** @type {HTMLElement} */ (item.querySelector('.value')),
  };
}

/**
 * @param {number[] | null} probabilities
 * @param {number} microseconds
 */
export function present(probabilities, microseconds) {
  const best = probabilities ? probabilities.indexOf(Math.max(...probabilities)) : -1;
  bars.forEach(({ item, fill, value }, digit) => {
    const p = probabilities?.[digit] ?? 0;
    item.classList.toggle('best', digit === best);
    fill.style.transform = `translateX(${100 * (p - 1)}%)`;
    value.textContent = probabilities ? percent(p) : '';
  });
  const sure = probabilities ? probabilities[best] : 0;
  document.body.classList.toggle('known', best >= 0);
  document.body.dataset.answer = best < 0 ? '' : String(best);
  $('digit').textContent = best < 0 ? '–' : best;
  const says =
    best < 0
      ? 'Waiting for a digit'
      : sure > 0.9
        ? `That is a ${best}`
        : sure > 0.5
          ? `Probably a ${best}`
          : `Perhaps a ${best}`;
  $('says').textContent = says;
  if (best < 0) $('time').innerHTML = '&nbsp;';
  else $('time').innerHTML = `answered in <strong>${microseconds.toFixed(0)} µs</strong>`;
  // Spoken when the hand rests, not at every move.
  clearTimeout(announce);
  if (best >= 0) announce = setTimeout(() => ($('live').textContent = `${says}, ${percent(sure)}`), 700);
}
