/** The label of all objects that serve a PolicyServer: its name, as Kubewarden's controller has it. */
export const serverLabel = 'kubewarden/policy-server';
