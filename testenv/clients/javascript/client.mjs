// node client.mjs KUBECONFIG POD: drives the JavaScript client of Kubernetes, and prints a line for each thing that it did.
import { Writable, Readable } from "node:stream";
import { CoreV1Api, Exec, KubeConfig, Watch, makeInformer } from "@kubernetes/client-node";

const namespace = "default";
const [file, pod] = process.argv.slice(2);
const config = new KubeConfig();
config.loadFromFile(file);
const core = config.makeApiClient(CoreV1Api);
const name = `javascript-${pod}`;
const did = (...facts) => console.log(...facts);
// A step that hangs is an error.
setTimeout(() => { console.error("error: it hangs"); process.exit(1); }, 60000).unref();

const pods = await core.listNamespacedPod({ namespace, fieldSelector: `metadata.name=${pod}` });
did("list", pods.items.length);
const seen = [];
let ended;
const deleted = new Promise((resolve) => { ended = resolve; });
const watching = await new Watch(config).watch(
  `/api/v1/namespaces/${namespace}/configmaps`,
  { labelSelector: `made-by=${name}` },
  (type) => { seen.push(type); if (type === "DELETED") ended(); },
  (error) => ended(error),
);
const list = () => core.listNamespacedConfigMap({ namespace });
const informer = makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list);
const informed = new Promise((resolve) => informer.on("add", (object) => object.metadata.name === name && resolve()));
await informer.start();
await core.createNamespacedConfigMap({ namespace, body: { metadata: { name, labels: { "made-by": name } }, data: { key: "value" } } });
did("create");
await informed;
await informer.stop();
did("informer");
await core.deleteNamespacedConfigMap({ name, namespace });
did("delete");
await deleted;
watching.abort();
for (const type of seen) did("watch", type);
let output = "";
const collect = new Writable({ write(chunk, _encoding, done) { output += chunk; done(); } });
const status = await new Promise((resolve, reject) => {
  const command = ["sh", "-c", "read -r line; echo got $line"];
  new Exec(config).exec(namespace, pod, "main", command, collect, collect, Readable.from(["input\n"]), false, resolve).catch(reject);
});
did("exec", JSON.stringify(output), status.status);
await core.readNamespacedConfigMap({ name, namespace }).then(
  () => did("get", "found"),
  (error) => did("get", error.code),
);
process.exit(0);
