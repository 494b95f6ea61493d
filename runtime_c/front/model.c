// The model's arrays by their names, and archives of them.
#include "front.h"

array *next_input(model *m) {
  for (array *x = m->parameter; x < m->end; x++)
    if (x->kind == INPUT && !x->given) return x;
  return 0;
}

array *named(model *m, const char *name) {
  for (array *x = m->parameter; x < m->end; x++)
    if (same(x->name, name)) return x;
  return 0;
}

int is_new(array *x, const char *name) {
  if (!x) fail_name("the model takes no array of this name", name);
  else if (x->given) fail_name("this input is given twice", name);
  return x && !x->given;
}

void read_entry(reader *in, const char *name, uint32_t number, const transfer *item) {
  if (item) {
    if (number < item->count) read_npy(in, &item->arrays[number]);
    return;
  }
  model *m = description();
  array *x = named(m, name);
  static char unnamed[16]; // as numpy.savez calls what has no name
  copy(unnamed, "arr_", 4);
  unnamed[4 + print_integer(number, unnamed + 4)] = 0;
  if (!x && same(name, unnamed)) x = next_input(m);
  if (is_new(x, name)) read_npy(in, x);
}
