/** The label of what Rampart creates. */
export const managedByLabel = 'app.kubernetes.io/managed-by';
export const managedBy = 'rampart';
export const managedLabels = { [managedByLabel]: managedBy } as const;
/** Selects the objects that have it. */
export const managedSelector = `${managedByLabel}=${managedBy}`;
