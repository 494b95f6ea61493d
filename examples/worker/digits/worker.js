// The digits classifier behind HTTP: POST / takes an image and gives ten logits, GET / says in which forms.
import { load } from './model.js';
import { handler } from './xla-wasm/http/handler.js';

export default { fetch: handler(() => load()) };
