// The form of the page: sends the inputs without leaving the page, and shows the answer. Without it the form works too,
// and shows JSON.

const form = document.querySelector('form');
const answer = document.querySelector('#answer');
const MOST_BARS = 32;
const MOST_SHOWN = 20000;

const element = (name, text = '', attributes = {}) => {
  const made = Object.assign(document.createElement(name), attributes);
  made.textContent = text;
  return made;
};

// What goes to the server: of each input its file, or else its text.
const body = () => {
  const data = new FormData();
  for (const field of form.querySelectorAll('fieldset')) {
    const file = field.querySelector('input[type=file]').files[0];
    const text = field.querySelector('textarea').value;
    if (file) data.append(field.dataset.name, file);
    else if (text.trim()) data.append(field.dataset.name, text);
  }
  return data;
};

const bars = (values) => {
  const list = element('div', '', { className: 'bars' });
  const least = Math.min(0, ...values),
    most = Math.max(least + 1e-300, ...values);
  values.forEach((value, i) => {
    const label = String(Number(value.toPrecision(6)));
    list.append(
      element('span', String(i), { className: 'soft' }),
      element('meter', label, { min: 0, max: 1, value: (value - least) / (most - least), ariaLabel: `element ${i}` }),
      element('span', label),
    );
  });
  return list;
};

const show = (results) => {
  for (const [name, value] of Object.entries(results)) {
    answer.append(element('h3', name));
    const flat = [value].flat(Infinity);
    if (flat.length > 1 && flat.length <= MOST_BARS && flat.every(Number.isFinite)) answer.append(bars(flat));
    const text = JSON.stringify(value);
    answer.append(element('pre', text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)} ...` : text));
  }
};

const complain = (message) => answer.append(element('p', message, { className: 'problem' }));

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = form.querySelector('button[type=submit]');
  button.disabled = true;
  answer.setAttribute('aria-busy', 'true');
  const began = performance.now();
  try {
    const response = await fetch(form.action, {
      method: 'POST',
      body: body(),
      headers: { Accept: 'application/json' },
    });
    const content = await response.json();
    const milliseconds = (performance.now() - began).toFixed(1);
    answer.replaceChildren(
      element('h2', response.ok ? `Results, after ${milliseconds} ms` : `Error ${response.status}`),
    );
    if (response.ok) show(content);
    else complain(content.error.message);
  } catch (error) {
    answer.replaceChildren(element('h2', 'No answer'));
    complain(String(error));
  } finally {
    button.disabled = false;
    answer.removeAttribute('aria-busy');
    answer.hidden = false;
  }
});

// Random numbers of a type, for a first try.
const random = (type) => {
  if (type === 'pred') return Math.random() < 0.5 ? 0 : 1;
  if (/^[su]\d/.test(type)) return Math.floor(Math.random() * (/\D[12]$/.test(type) ? 1 : 8));
  return Number((type === 'f8e8m0fnu' ? 2 ** Math.floor(Math.random() * 4) : Math.random()).toFixed(3));
};

const fill = ({ type, sizes }) => {
  const [size, ...rest] = sizes;
  if (size !== undefined) return Array.from({ length: size }, () => fill({ type, sizes: rest }));
  return /^c\d/.test(type) ? [random(type), random(type)] : random(type);
};

form.querySelector('[data-fill]').addEventListener('click', () => {
  for (const field of form.querySelectorAll('fieldset')) {
    field.querySelector('input[type=file]').value = '';
    field.querySelector('textarea').value = JSON.stringify(
      fill({ type: field.dataset.type, sizes: JSON.parse(field.dataset.sizes) }),
    );
  }
});

form.querySelector('[data-fill]').hidden = false;
