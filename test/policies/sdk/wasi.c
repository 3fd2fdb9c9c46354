// A policy as a WASI command: `policy.wasm validate`, with the request on stdin and the answer on stdout.
#include <unistd.h>

#include "answer.h"

__attribute__((import_module("host"), import_name("call"))) extern int host_call_import(
    const char *binding, size_t binding_size, const char *space, size_t space_size, const char *operation,
    size_t operation_size, const char *payload, size_t size);

static text all_input(void) {
  size_t size = 0, room = 65536;
  char *at = malloc(room);
  for (ssize_t read_now; (read_now = read(0, at + size, room - size)) > 0;) {
    size += (size_t)read_now;
    if (size == room) at = realloc(at, room *= 2);
  }
  return (text){at, size};
}

text host_call(const char *space, const char *operation, text payload, bool *failed) {
  *failed = host_call_import("kubewarden", 10, space, strlen(space), operation, strlen(operation), payload.at,
                             payload.size) != 0;
  return all_input();
}

int main(int count, char **args) {
  text json = all_input(), result;
  if (count == 2 && strcmp(args[1], "validate") == 0) {
    result = answer_json(validate(json_get(json, "request"), json_get(json, "settings")));
  } else if (count == 2 && strcmp(args[1], "validate-settings") == 0) {
    result = settings_json(check_settings(json));
  } else {
    fprintf(stderr, "usage: policy.wasm validate|validate-settings\n");
    return 2;
  }
  for (size_t done = 0; done < result.size;) {
    ssize_t now = write(1, result.at + done, result.size - done);
    if (now <= 0) return 1;
    done += (size_t)now;
  }
  return 0;
}
