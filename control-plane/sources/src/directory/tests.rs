mod edits;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use portcullis_api::ReferencedData;

use super::*;
use crate::events::ChangedPaths;
use crate::references::Root;

const A: &str = "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n";

async fn until(sets: &mut watch::Receiver<Arc<ObjectSet>>, names: &[&str]) {
    let found = |set: &Arc<ObjectSet>| {
        set.clusters.iter().filter_map(|one| one.get("metadata")?.get("name")?.as_str()).eq(names.iter().copied())
    };
    tokio::time::timeout(Duration::from_secs(20), sets.wait_for(found)).await.unwrap().unwrap();
}

#[tokio::test]
async fn changes_and_replaced_links_are_seen() {
    let dir = tempfile::tempdir().unwrap();
    for (version, name) in [("one", "a.test"), ("two", "b.test")] {
        fs::create_dir(dir.path().join(version)).unwrap();
        fs::write(dir.path().join(version).join("c.yaml"), A.replace("a.test", name)).unwrap();
    }
    // As a volume of Kubernetes is laid out.
    symlink("one", dir.path().join("..data")).unwrap();
    symlink("..data/c.yaml", dir.path().join("c.yaml")).unwrap();
    let mut sets = watch(Watched::directory(dir.path())).await.unwrap();
    until(&mut sets, &["a.test"]).await;
    symlink("two", dir.path().join("..tmp")).unwrap();
    fs::rename(dir.path().join("..tmp"), dir.path().join("..data")).unwrap();
    until(&mut sets, &["b.test"]).await;
    fs::write(dir.path().join("d.yaml"), A).unwrap();
    until(&mut sets, &["b.test", "a.test"]).await;
    assert!(watch(Watched::directory(dir.path().join("nowhere"))).await.is_err());
}

#[tokio::test]
async fn file_that_is_written_in_place_is_read_when_it_is_whole() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.yaml"), A).unwrap();
    let mut sets = watch(Watched::directory(dir.path())).await.unwrap();
    until(&mut sets, &["a.test"]).await;
    // Truncated it is a file without objects, and a part of it is one with fewer.
    let mut file = fs::File::create(dir.path().join("a.yaml")).unwrap();
    fs::write(dir.path().join("b.yaml"), A.replace("a.test", "b.test")).unwrap();
    until(&mut sets, &["a.test", "b.test"]).await;
    write!(file, "{}---\n{}", A.replace("a.test", "c.test"), A.replace("a.test", "d.test")).unwrap();
    drop(file);
    until(&mut sets, &["c.test", "d.test", "b.test"]).await;
}

#[tokio::test]
async fn edit_in_place_is_noticed_below_a_relative_path() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let up: PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
    let relative = up.join(dir.path().strip_prefix("/").unwrap());
    for (watched, name) in
        [(Watched::directory(&relative), "b.test"), (Watched::file_or_directory(&relative.join("a.yaml")), "c.test")]
    {
        fs::write(&file, A).unwrap();
        let events = ChangeEvents::default();
        let _notifier = watcher(&watched, events.clone()).unwrap();
        let mut reading = Reading::default();
        let before = reading.begin(&watched);
        fs::write(&file, A.replace("a.test", name)).unwrap();
        let noticed = async {
            while reading.objects(&watched).clusters == before.clusters {
                events.settled().await;
                reading.reread(&watched, &events.take(Instant::now()), NoticedAt::default());
            }
        };
        tokio::time::timeout(Duration::from_secs(20), noticed).await.unwrap();
    }
}

#[test]
fn link_that_leads_to_another_directory_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    for (version, name) in [("one", "a.test"), ("two", "b.test")] {
        fs::create_dir(dir.path().join(version)).unwrap();
        fs::write(dir.path().join(version).join("a.yaml"), A.replace("a.test", name)).unwrap();
    }
    symlink("one", dir.path().join("config")).unwrap();
    let watched = Watched::directory(dir.path().join("config"));
    let mut reading = Reading::default();
    reading.begin(&watched);
    let nothing = ChangedPaths { paths: Some(BTreeSet::new()), ..Default::default() };
    let same = reading.reread(&watched, &nothing, NoticedAt::default());
    assert!(same.set.is_none() && !same.is_elsewhere);
    symlink("two", dir.path().join("new")).unwrap();
    fs::rename(dir.path().join("new"), dir.path().join("config")).unwrap();
    let after = reading.reread(&watched, &nothing, NoticedAt::default());
    assert!(after.is_elsewhere);
    assert_eq!(after.set.unwrap().clusters[0]["metadata"]["name"], "b.test");
}

#[tokio::test]
async fn directory_that_vanishes_keeps_its_content_until_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("config"), dir.path().join("away"));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("a.yaml"), A).unwrap();
    let mut sets = watch(Watched::directory(&path)).await.unwrap();
    until(&mut sets, &["a.test"]).await;
    fs::rename(&path, &away).unwrap();
    let stale = |set: &Arc<ObjectSet>| set.is_stale() && set.clusters.len() == 1;
    tokio::time::timeout(Duration::from_secs(20), sets.wait_for(stale)).await.unwrap().unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("b.yaml"), A.replace("a.test", "b.test")).unwrap();
    until(&mut sets, &["b.test"]).await;
    fs::write(path.join("c.yaml"), A.replace("a.test", "c.test")).unwrap();
    until(&mut sets, &["b.test", "c.test"]).await;
}

#[tokio::test]
async fn file_that_is_referred_to_acts_as_an_edit_does() {
    let dir = tempfile::tempdir().unwrap();
    let (manifests, root) = (dir.path().join("manifests"), dir.path().join("root"));
    fs::create_dir(&manifests).unwrap();
    fs::create_dir_all(root.join("a")).unwrap();
    let spec = "spec: {portcullis: {references: {token: {file: a/token}}}}\n";
    fs::write(manifests.join("a.yaml"), format!("{A}{spec}")).unwrap();
    let watched = Watched::directory(&manifests).references(Some(Root::new(&root)));
    let mut sets = watch(watched).await.unwrap();
    for wanted in [None, Some("one"), Some("two"), None] {
        match wanted {
            Some(text) => fs::write(root.join("a/token"), text).unwrap(),
            None => drop(fs::remove_file(root.join("a/token"))),
        }
        let found = |set: &Arc<ObjectSet>| match &set.referenced_data {
            ReferencedData::Files(files) => {
                files["a/token"].as_ref().map(|bytes| bytes.expose()) == wanted.map(str::as_bytes)
            }
            _ => false,
        };
        tokio::time::timeout(Duration::from_secs(20), sets.wait_for(found)).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn settings_have_what_they_refer_to() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.yaml");
    let pair = "{certificate: tls.crt, privateKey: tls.key}";
    let head = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: a}\n";
    fs::write(&file, format!("{head}spec: {{defaultCertificate: {{file: {pair}}}}}\n")).unwrap();
    fs::write(dir.path().join("tls.crt"), "one").unwrap();
    let watched = Watched::file_or_directory(&file).references(Some(Root::new(dir.path())));
    let mut sets = watch(watched).await.unwrap();
    for (key, wanted) in [(None, None), (Some("two"), Some("dHdv")), (Some("three"), Some("dGhyZWU="))] {
        if let Some(key) = key {
            fs::write(dir.path().join("tls.key"), key).unwrap();
        }
        let found = |set: &Arc<ObjectSet>| {
            let certificate = &set.settings[0]["spec"]["defaultCertificate"];
            certificate["keyData"].as_str() == wanted && certificate["file"].is_null() == wanted.is_some()
        };
        tokio::time::timeout(Duration::from_secs(20), sets.wait_for(found)).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn one_file_is_watched_alone_and_must_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.conf");
    assert!(watch(Watched::file_or_directory(&file)).await.is_err());
    fs::write(&file, A).unwrap();
    fs::write(dir.path().join("b.yaml"), A.replace("a.test", "b.test")).unwrap();
    let mut sets = watch(Watched::file_or_directory(&file)).await.unwrap();
    until(&mut sets, &["a.test"]).await;
    fs::write(&file, A.replace("a.test", "c.test")).unwrap();
    until(&mut sets, &["c.test"]).await;
    fs::remove_file(&file).unwrap();
    let has_diagnoses = |set: &Arc<ObjectSet>| !set.diagnoses.is_empty();
    let set =
        tokio::time::timeout(Duration::from_secs(20), sets.wait_for(has_diagnoses)).await.unwrap().unwrap().clone();
    assert_eq!(set.clusters.len(), 1, "its last good content stays in use");
}
