//! `portcullis offboard`: deletes what `portcullis onboard` made, and nothing else.

mod arguments;
mod deletion;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use portcullis_sources::{Input, read_inputs};
use serde_json::Value;

pub(crate) use arguments::Offboard;
use deletion::Found;

use crate::onboard::{
    MANAGED_BY, MANAGER, OnboardError, StoreCluster, TargetCluster, collection, fail_with_advice, file_names, manifest,
    object_path, references, say, selector,
};
use crate::runtime::{Threads, runtime};

pub(crate) fn run(arguments: &Offboard) -> ExitCode {
    let outcome = runtime(Threads::Current).map_err(OnboardError::from);
    match outcome.and_then(|runtime| runtime.block_on(offboard(arguments))) {
        Ok(status) => status,
        Err(error) => fail_with_advice(&error),
    }
}

async fn offboard(arguments: &Offboard) -> Result<ExitCode, OnboardError> {
    let found = find(arguments).await?;
    for left in &found.left {
        say(&format!("stays: {left}"));
    }
    for deletion in &found.deletions {
        say(&format!("to delete: {}", deletion.shown()));
    }
    if found.deletions.is_empty() {
        say(&format!("nothing of {} is here", arguments.name));
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.dry_run {
        say("nothing was deleted");
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes && !is_confirmed() {
        return Err(OnboardError::Unconfirmed);
    }
    for deletion in &found.deletions {
        deletion.run().await?;
        say(&format!("deleted: {}", deletion.shown()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the person at the terminal. Without one the answer is no.
fn is_confirmed() -> bool {
    if !std::io::stdin().is_terminal() {
        return false;
    }
    // A closed standard error has no reader.
    let _ = std::io::stderr().write_all(b"delete all of it? (y/N) ");
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Everything that was made for the cluster: first what clients use, then what the gateway needs.
async fn find(arguments: &Offboard) -> Result<Found, OnboardError> {
    let (name, mut found) = (arguments.name.as_str(), Found::default());
    let mut read = Read::default();
    if arguments.store.is_given() {
        let store = StoreCluster::open(&arguments.store).await?;
        find_in_store(&store, name, &mut found, &mut read).await?;
    }
    if let Some(dir) = &arguments.output_dir {
        find_in_directory(dir, name, &mut found, &mut read)?;
    }
    if arguments.target.kubeconfig.is_none() && arguments.target.context.is_none() {
        found.left.push("the gateway's rights in the cluster itself: no --kubeconfig names it".to_owned());
        return Ok(found);
    }
    let target = TargetCluster::open(&arguments.target).await?;
    match read.need_of_rights(name).filter(|_| !arguments.rights) {
        Some(reason) => {
            let shown = format!("the gateway's rights in the cluster itself: {reason}; --rights deletes them");
            found.left.push(shown);
        }
        None => find_rights(&target, &mut found).await?,
    }
    find_requests(&target, name, &mut found).await?;
    Ok(found)
}

/// The UpstreamClusters that were read.
#[derive(Default)]
struct Read {
    /// Those of the name: in the store and in the directory.
    own: Vec<Value>,
    others: Vec<Value>,
    /// One of the name is not deleted.
    stays: bool,
}

impl Read {
    /// A reason for which the gateway may need its rights in the cluster afterwards.
    fn need_of_rights(&self, name: &str) -> Option<String> {
        if self.own.is_empty() {
            return Some(format!("UpstreamCluster {name} was not read, and another of its servers may need them"));
        }
        if self.stays {
            return Some(format!("UpstreamCluster {name} stays, and needs them"));
        }
        let other = self.own.iter().find_map(|own| sharer(own, &self.others))?;
        Some(format!("UpstreamCluster {other} has the same server"))
    }
}

/// Objects of the store.
async fn find_in_store(
    store: &StoreCluster,
    name: &str,
    found: &mut Found,
    read: &mut Read,
) -> Result<(), OnboardError> {
    read.others.extend(store.others(name).await?);
    if let Some(object) = store.existing(name).await? {
        let goes = found.add(&store.api, object_path("UpstreamCluster", "", name), &object);
        read.own.push(object);
        if !goes {
            read.stays = true;
            found.left.push(format!("Secrets of {name} in {}: UpstreamCluster {name} stays", store.api.side));
            return Ok(());
        }
    }
    for secret in store.secrets(name).await? {
        found.add(&store.api, store.secret_path(text(&secret, "/metadata/name")), &secret);
    }
    Ok(())
}

fn find_in_directory(dir: &Path, name: &str, found: &mut Found, read: &mut Read) -> Result<(), OnboardError> {
    found.add_file(manifest(dir, name));
    let folder = references(dir, name);
    file_names().into_iter().for_each(|file| found.add_file(folder.join(file)));
    found.add_file(folder);
    let set = read_inputs(&[Input::Path(dir.to_owned())]).map_err(crate::read_manifests::ManifestError::from)?;
    let (own, others): (Vec<Value>, Vec<Value>) =
        set.clusters.iter().map(|one| one.as_ref().clone()).partition(|one| text(one, "/metadata/name") == name);
    read.own.extend(own);
    read.others.extend(others);
    Ok(())
}

/// Another object that has one of the same servers.
fn sharer(object: &Value, others: &[Value]) -> Option<String> {
    let ours = endpoints(object);
    let other = others.iter().find(|other| !endpoints(other).is_disjoint(&ours))?;
    Some(text(other, "/metadata/name").to_owned())
}

fn endpoints(object: &Value) -> BTreeSet<&str> {
    let servers = object.pointer("/spec/servers").and_then(Value::as_array).into_iter().flatten();
    servers.filter_map(|server| server.get("endpoint")?.as_str()).collect()
}

/// The gateway's role, its binding, and service accounts that were made for it.
async fn find_rights(target: &TargetCluster, found: &mut Found) -> Result<(), OnboardError> {
    for kind in ["ClusterRoleBinding", "ClusterRole"] {
        let path = object_path(kind, "", crate::rbac::NAME);
        let object = target.api.get(&path).await.map_err(target.api.failed(format!("reading {kind}")))?;
        if let Some(object) = object {
            found.add(&target.api, path, &object);
        }
    }
    let path = format!("/api/v1/serviceaccounts?labelSelector={}%3D{MANAGER}", MANAGED_BY.replace('/', "%2F"));
    for account in target.api.list(&path).await.map_err(target.api.failed("listing ServiceAccounts"))? {
        let (namespace, name) = (text(&account, "/metadata/namespace"), text(&account, "/metadata/name"));
        found.add(&target.api, object_path("ServiceAccount", namespace, name), &account);
    }
    Ok(())
}

/// CertificateSigningRequests of earlier runs; the cluster deletes them itself after a while.
async fn find_requests(target: &TargetCluster, name: &str, found: &mut Found) -> Result<(), OnboardError> {
    let path = format!("{}?labelSelector={}", collection("CertificateSigningRequest", ""), selector(name));
    let requests = target.api.list(&path).await;
    for request in requests.map_err(target.api.failed("listing CertificateSigningRequests"))? {
        let request_name = text(&request, "/metadata/name");
        // Of names that are too long for a label the label says nothing.
        if request_name.starts_with(&format!("portcullis-{name}-")) {
            found.add(&target.api, object_path("CertificateSigningRequest", "", request_name), &request);
        }
    }
    Ok(())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, servers: &[&str]) -> Value {
        let servers: Vec<Value> = servers.iter().map(|one| json!({"endpoint": one})).collect();
        json!({"metadata": {"name": name}, "spec": {"servers": servers}})
    }

    #[test]
    fn rights_are_shared_by_objects_with_one_of_the_same_servers() {
        let ours = object("a.test", &["https://10.0.0.1:6443", "https://10.0.0.2:6443"]);
        assert_eq!(sharer(&ours, &[object("b.test", &["https://10.0.0.3:6443"]), object("c.test", &[])]), None);
        let other = object("d.test", &["https://10.0.0.9:6443", "https://10.0.0.2:6443"]);
        assert_eq!(sharer(&ours, &[other]), Some("d.test".to_owned()));
    }

    #[test]
    fn rights_go_with_an_object_that_was_read_and_shares_none() {
        let ours = object("a.test", &["https://10.0.0.1:6443"]);
        let need = |own: &[&Value], others: &[Value], stays| {
            let own = own.iter().map(|one| (*one).clone()).collect();
            Read { own, others: others.to_vec(), stays }.need_of_rights("a.test").unwrap_or_default()
        };
        assert!(need(&[], &[], false).contains("was not read"));
        assert!(need(&[], &[object("b.test", &["https://10.0.0.1:6443"])], false).contains("was not read"));
        assert!(need(&[&ours], &[object("b.test", &["https://10.0.0.1:6443"])], false).contains("b.test has the same"));
        assert!(need(&[&ours], &[], true).contains("stays"));
        assert_eq!(need(&[&ours], &[object("b.test", &["https://10.0.0.2:6443"])], false), "");
    }
}
