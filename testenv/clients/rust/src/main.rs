//! `portcullis-client KUBECONFIG POD`: drives kube-rs, and prints a line for each thing that it did.

use std::error::Error;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, AttachParams, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const NAMESPACE: &str = "default";
/// Longer than any step takes.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (file, pod) = (arguments.next().ok_or("KUBECONFIG is missing")?, arguments.next().ok_or("POD is missing")?);
    tokio::time::timeout(DEADLINE, run(&file, &pod)).await?
}

async fn run(file: &str, pod: &str) -> Result<(), Box<dyn Error>> {
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let found = pods.list(&ListParams::default().fields(&format!("metadata.name={pod}"))).await?;
    println!("list {}", found.items.len());
    let (maps, name) = (Api::<ConfigMap>::namespaced(client, NAMESPACE), format!("rust-{pod}"));
    let mut events = watcher(maps.clone(), watcher::Config::default().labels(&format!("made-by={name}"))).boxed();
    while !matches!(events.try_next().await?, Some(Event::InitDone)) {}
    let object: ConfigMap = serde_json::from_value(serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"made-by": name}}, "data": {"key": "value"},
    }))?;
    maps.create(&PostParams::default(), &object).await?;
    println!("create");
    println!("watch {}", said(&events.try_next().await?));
    let mut other = object.clone();
    other.data = Some([("key".to_owned(), "other".to_owned())].into());
    maps.patch(&name, &PatchParams::apply("rust").force(), &Patch::Apply(&other)).await?;
    println!("apply");
    println!("watch {}", said(&events.try_next().await?));
    maps.delete(&name, &DeleteParams::default()).await?;
    println!("delete");
    println!("watch {}", said(&events.try_next().await?));
    exec(&pods, pod).await?;
    println!("get {}", maps.get_opt(&name).await?.is_some());
    Ok(())
}

fn said(event: &Option<Event<ConfigMap>>) -> &'static str {
    match event {
        Some(Event::Apply(_)) => "applied",
        Some(Event::Delete(_)) => "deleted",
        Some(_) => "another event",
        None => "ended",
    }
}

async fn exec(pods: &Api<Pod>, pod: &str) -> Result<(), Box<dyn Error>> {
    let parameters = AttachParams::default().stdin(true).stderr(false);
    let mut session = pods.exec(pod, ["sh", "-c", "read -r line; echo got $line"], &parameters).await?;
    session.stdin().ok_or("no input")?.write_all(b"input\n").await?;
    let status = session.take_status().ok_or("no status")?;
    let mut output = String::new();
    session.stdout().ok_or("no output")?.read_to_string(&mut output).await?;
    println!("exec {output:?} {:?}", status.await.and_then(|status| status.status));
    Ok(session.join().await?)
}
