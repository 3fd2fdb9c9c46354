// Rejects objects with a name in its settings, {"denied": [...]}; the list must not be empty.
// runtimes: wapc wasi opa gatekeeper
#include "policy.h"

METADATA({"protocolVersion" : "v1", "executionMode" : MODE, "mutating" : false, "rules" : []});

answer validate(text request, text settings) {
  text name = json_get(request, "object.metadata.name"), key, denied;
  const char *at = 0;
  while (json_next(json_get(settings, "denied"), &at, &key, &denied)) {
    if (denied.size == name.size && memcmp(denied.at, name.at, name.size) == 0) {
      return reject(format("%.*s is denied", SHOW(json_unquoted(name))));
    }
  }
  return accept();
}

text check_settings(text settings) {
  text key, first;
  const char *at = 0;
  return json_next(json_get(settings, "denied"), &at, &key, &first) ? text_of("") : text_of("no name is denied");
}
