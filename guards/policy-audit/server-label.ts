/** The label of all objects that serve a PolicyServer, with the server's name as its value, as in Kubewarden's controller. */
export const serverLabel = 'kubewarden/policy-server';
