// A worker that never answers.

setInterval(() => {}, 1000);
