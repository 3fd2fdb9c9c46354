/** The label of what Rampart creates. */
export const managedByLabel = 'app.kubernetes.io/managed-by';
export const managedBy = 'rampart';
export const managedLabels = { [managedByLabel]: managedBy } as const;
/** Selects what has it. */
export const managedSelector = `${managedByLabel}=${managedBy}`;
