// The interface of a policy, the same for each runtime: it is compiled with wapc.c, wasi.c or rego.c.
#ifndef POLICY_H
#define POLICY_H
#include "json.h"

typedef struct {
  bool accepted;
  text message;    // without quotes, escaped as in JSON
  int code;        // 0: no code
  text mutated;    // the whole object
  text warnings;   // a list
  text annotations;  // an object
  bool raw;        // `message` is the whole answer
} answer;

// Implemented by the policy.
answer validate(text request, text settings);
// The message is empty if the settings are valid.
text check_settings(text settings);

// Implemented by the runtime: the host's answer, or its error with `*failed` set.
text host_call(const char *space, const char *operation, text payload, bool *failed);

static inline answer accept(void) { return (answer){.accepted = true}; }
static inline answer reject(text message) { return (answer){.message = message}; }

// Metadata of the policy, as JSON; quoted twice, once for the compiler and once for the assembler.
#define QUOTE(...) #__VA_ARGS__
#define QUOTED(...) QUOTE(__VA_ARGS__)
#define METADATA(...) \
  __asm__(".section .custom_section.io.kubewarden.metadata,\"\",@\n.ascii " QUOTED(QUOTED(__VA_ARGS__)) "\n.text\n")
#endif
