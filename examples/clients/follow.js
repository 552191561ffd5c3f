// The same with @kubernetes/client-node.
const k8s = require('@kubernetes/client-node');

const config = new k8s.KubeConfig();
config.loadFromDefault();
const told = (type, pod) => console.log(type, pod.metadata.name, pod.status.phase);
new k8s.Watch(config).watch('/api/v1/namespaces/default/pods', {}, told, (error) => error && console.error(error));
