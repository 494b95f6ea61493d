// The service worker of the extension. The browser ends it when it has been idle for half a minute, and starts it again
// for the next message: the model is loaded when somebody first asks.

import { load } from './model.js';

let model;

chrome.runtime.onMessage.addListener(({ image }, sender, answer) => {
  model ??= load();
  model
    .then((model) => answer({ logits: Array.from(model.run({ image: Float32Array.from(image) }).result) }))
    .catch((error) => answer({ error: error.message }));
  return true; // the answer comes later
});
