"""@kubernetes/client-node, unchanged: objects, watches, its informer, and a pod's log, commands and ports.

It is installed by nobody here: where node finds it (`NODE_PATH`), these run.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.testing import cluster
from alcove.testing.server import Caller

PACKAGE = "@kubernetes/client-node"


def lacking() -> str:
    """Why the client cannot be tried here; empty: it can."""
    if shutil.which("node") is None:
        return "needs node"
    found = subprocess.run(["node", "-e", f"require('{PACKAGE}')"], capture_output=True)
    return "" if found.returncode == 0 else f"needs {PACKAGE} where NODE_PATH says"


pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(lacking()), reason=lacking())]

BEGIN = """
const k8s = require('@kubernetes/client-node');
const kc = new k8s.KubeConfig();
kc.loadFromDefault();
const core = kc.makeApiClient(k8s.CoreV1Api);
const namespace = 'default';
const later = (ms) => new Promise((done) => setTimeout(done, ms));
const until = async (check) => { while (!check()) await later(20); };
const map = (name, data) => ({apiVersion: 'v1', kind: 'ConfigMap', metadata: {name, namespace}, data});
"""

OBJECTS = """
const result = {};
(async () => {
  for (const n of ['a', 'b', 'c']) await core.createNamespacedConfigMap({namespace, body: map(n, {n: '0'})});
  const page = await core.listNamespacedConfigMap({namespace, limit: 2});
  const rest = await core.listNamespacedConfigMap({namespace, limit: 2, _continue: page.metadata._continue});
  result.pages = [page.items.length, rest.items.length];
  const since = rest.metadata.resourceVersion;

  const patched = [];
  for (const [strategy, body] of [
    [k8s.PatchStrategy.JsonPatch, [{op: 'replace', path: '/data/n', value: '1'}]],
    [k8s.PatchStrategy.MergePatch, {data: {n: '2'}}],
    [k8s.PatchStrategy.StrategicMergePatch, {data: {n: '3'}}],
  ]) {
    const options = k8s.setHeaderOptions('Content-Type', strategy);
    patched.push((await core.patchNamespacedConfigMap({name: 'a', namespace, body}, options)).data.n);
  }
  result.patched = patched;
  const apply = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply);
  const applied = await core.patchNamespacedConfigMap(
    {name: 'a', namespace, body: map('a', {m: '9'}), fieldManager: 'tests', force: true}, apply);
  result.applied = applied.data;
  await core.deleteNamespacedConfigMap({name: 'b', namespace});

  const seen = [];
  const watch = new k8s.Watch(kc);
  const path = '/api/v1/namespaces/default/configmaps';
  const request = await watch.watch(path, {resourceVersion: since}, (type, obj) => seen.push(type + ' ' + obj.metadata.name), () => {});
  await until(() => seen.length >= 5);
  request.abort();
  result.seen = seen;

  const heard = [];
  const informer = k8s.makeInformer(kc, path, () => core.listNamespacedConfigMap({namespace}));
  for (const kind of ['add', 'update', 'delete']) informer.on(kind, (obj) => heard.push(kind + ' ' + obj.metadata.name));
  await informer.start();
  await until(() => heard.length >= 2);
  await core.createNamespacedConfigMap({namespace, body: map('d', {})});
  await core.deleteNamespacedConfigMap({name: 'd', namespace});
  await until(() => heard.includes('delete d'));
  await informer.stop();
  result.heard = heard;

  const generic = k8s.KubernetesObjectApi.makeApiClient(kc);
  const names = {plural: 'widgets', singular: 'widget', kind: 'Widget'};
  const schema = {openAPIV3Schema: {type: 'object', properties: {spec: {type: 'object', properties: {size: {type: 'integer'}}}}}};
  await generic.create({
    apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: {name: 'widgets.example.com'},
    spec: {group: 'example.com', scope: 'Namespaced', names, versions: [{name: 'v1', served: true, storage: true, schema}]},
  });
  const custom = kc.makeApiClient(k8s.CustomObjectsApi);
  const kind = {group: 'example.com', version: 'v1', namespace, plural: 'widgets'};
  for (let tries = 0; ; tries++) {
    try { await custom.listNamespacedCustomObject(kind); break; } catch (error) { if (tries > 100) throw error; await later(50); }
  }
  const body = {apiVersion: 'example.com/v1', kind: 'Widget', metadata: {name: 'w', namespace}, spec: {size: 1}};
  await generic.create(body);
  await generic.patch({...body, spec: {size: 2}}, undefined, undefined, 'tests', true, k8s.PatchStrategy.ServerSideApply);
  result.widgets = (await custom.listNamespacedCustomObject(kind)).items.map((each) => each.spec.size);
  try { await core.readNamespacedConfigMap({name: 'nobody', namespace}); } catch (error) { result.refused = error.code; }
  console.log(JSON.stringify(result));
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
"""

PODS = """
const {Writable, PassThrough} = require('stream');
const net = require('net');
const result = {};
const sink = (into) => new Writable({write(chunk, _, done) { result[into] = (result[into] || '') + chunk; done(); }});
(async () => {
  await new k8s.Log(kc).log(namespace, 'web', 'main', sink('log'), {});
  await until(() => (result.log || '').includes('first'));
  await new Promise((done, failed) => new k8s.Exec(kc).exec(
    namespace, 'web', 'main', ['sh', '-c', 'echo out; echo bad >&2; exit 3'], sink('out'), sink('bad'), null, false,
    (status) => { result.exit = status.details.causes[0].message; done(); }).catch(failed));
  const input = new PassThrough();
  const running = new Promise((done, failed) => new k8s.Exec(kc).exec(
    namespace, 'web', 'main', ['sh', '-c', 'read x; echo heard $x'], sink('heard'), null, input, false, done).catch(failed));
  input.write('me\\n');
  await running;
  const forward = new k8s.PortForward(kc);
  const server = net.createServer((socket) => forward.portForward(namespace, 'web', [8080], socket, null, socket));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  await new Promise((done) => {
    const socket = net.connect(server.address().port, '127.0.0.1', () => socket.write('GET / HTTP/1.0\\r\\n\\r\\n'));
    socket.on('data', (data) => { result.page = (result.page || '') + data; if (result.page.endsWith('hello\\n')) done(); });
  });
  console.log(JSON.stringify(result));
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
"""


def run(script: str, kubeconfig: Path, folder: Path) -> dict[str, Any]:
    """What the script prints."""
    (folder / "client.js").write_text(BEGIN + script)
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(
        ["node", str(folder / "client.js")], env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_objects_watches_and_kinds_of_ones_own(tenant: Caller, tmp_path: Path) -> None:
    result = run(OBJECTS, tenant.kubeconfig, tmp_path)
    assert result["pages"] == [2, 1]
    assert result["patched"] == ["1", "2", "3"]
    assert result["applied"] == {"n": "3", "m": "9"}
    assert result["seen"] == [*["MODIFIED a"] * 4, "DELETED b"]
    assert result["heard"] == ["add a", "add c", "add d", "delete d"]
    assert result["widgets"] == [2] and result["refused"] == 404


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if why := cluster.lacking():
        pytest.skip(why)
    with cluster.RealCluster(tmp_path_factory.mktemp("node")) as running:
        caller = running.make_tenant("acme")
        serves = "mkdir /tmp/w; echo hello >/tmp/w/index.html; echo first; httpd -f -p 8080 -h /tmp/w"
        assert caller.post(cluster.PODS, cluster.pod("web", serves)).status == 201
        cluster.ready(caller, "web", 60)
        yield caller.kubeconfig


def test_a_pods_log_commands_and_ports(web: Path, tmp_path: Path) -> None:
    result = run(PODS, web, tmp_path)
    assert result["log"] == "first\n"
    assert (result["out"], result["bad"], result["exit"]) == ("out\n", "bad\n", "3")
    assert result["heard"] == "heard me\n"
    assert result["page"].endswith("\r\n\r\nhello\n")


def test_the_example_follows_pods(tenant: Caller) -> None:
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert tenant.post(cluster.PODS, pod).status == 201
    example = Path(__file__).parents[2] / "examples" / "clients" / "follow.js"
    environment = {**os.environ, "KUBECONFIG": str(tenant.kubeconfig)}
    following = subprocess.Popen(["node", str(example)], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == "ADDED web Pending\n"
    finally:
        following.kill()
        following.communicate()
