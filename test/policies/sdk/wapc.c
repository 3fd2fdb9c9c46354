// A policy as a waPC guest.
#include "answer.h"

#define IMPORT(name) __attribute__((import_module("wapc"), import_name(#name))) extern
IMPORT(__guest_request) void guest_request(char *operation, char *payload);
IMPORT(__guest_response) void guest_response(const char *at, size_t size);
IMPORT(__guest_error) void guest_error(const char *at, size_t size);
IMPORT(__host_call) int wapc_host_call(const char *binding, size_t binding_size, const char *space, size_t space_size,
                                       const char *operation, size_t operation_size, const char *payload, size_t size);
IMPORT(__host_response_len) size_t host_response_size(void);
IMPORT(__host_response) void host_response(char *at);
IMPORT(__host_error_len) size_t host_error_size(void);
IMPORT(__host_error) void host_error(char *at);

text host_call(const char *space, const char *operation, text payload, bool *failed) {
  *failed = wapc_host_call("kubewarden", 10, space, strlen(space), operation, strlen(operation), payload.at,
                           payload.size) != 1;
  size_t size = *failed ? host_error_size() : host_response_size();
  char *at = malloc(size + 1);
  if (*failed) host_error(at);
  else host_response(at);
  return (text){at, size};
}

__attribute__((export_name("wapc_init"))) void wapc_init(void) {}

__attribute__((export_name("__guest_call"))) int guest_call(size_t operation_size, size_t size) {
  char *name = malloc(operation_size + 1), *payload = malloc(size + 1);
  guest_request(name, payload);
  text operation = {name, operation_size}, json = {payload, size}, result;
  if (equals(operation, "validate")) {
    result = answer_json(validate(json_get(json, "request"), json_get(json, "settings")));
  } else if (equals(operation, "validate_settings")) {
    result = settings_json(check_settings(json));
  } else if (equals(operation, "protocol_version")) {
    result = text_of("\"v1\"");
  } else {
    result = format("no operation %.*s", SHOW(operation));
    guest_error(result.at, result.size);
    return 0;
  }
  guest_response(result.at, result.size);
  return 1;
}
