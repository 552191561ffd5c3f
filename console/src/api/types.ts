// The parts of Kubernetes' objects that the console reads.

export interface Meta {
  name: string;
  namespace?: string;
  tenant?: string;
  uid?: string;
  resourceVersion?: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid?: string;
  controller?: boolean;
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

/** Any object; what is below `spec` and `status` is whatever somebody has stored. */
export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
  [field: string]: unknown;
}

export interface ListMeta {
  resourceVersion?: string;
  continue?: string;
  remainingItemCount?: number;
}

export interface KubeList<T = KubeObject> {
  metadata: ListMeta;
  items: T[];
}

export interface Column {
  name: string;
  type: string;
  format?: string;
  description?: string;
  priority: number;
}

export type Cell = string | number | boolean | null | undefined;

export interface TableRow {
  cells: Cell[];
  object: { metadata: Meta };
}

export interface Table {
  kind: "Table";
  metadata: ListMeta;
  columnDefinitions?: Column[];
  rows?: TableRow[];
}

export interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: T;
}

/** A kind that the server serves, as discovery tells it. */
export interface Kind {
  group: string;
  version: string;
  resource: string;
  kind: string;
  namespaced: boolean;
  verbs: string[];
  shortNames: string[];
  subresources: string[];
}

export interface UserInfo {
  username: string;
  groups?: string[];
  extra?: Record<string, string[]>;
}
