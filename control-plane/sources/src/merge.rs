use std::sync::Arc;

use tokio::sync::watch;

use crate::object_set::{FileDiagnosis, NoticedAt, ObjectSet};

/// Merges the `GatewaySettings` of files and the objects of another source: waits until both have a set, and yields one
/// whenever either has a newer one. `UpstreamCluster`s in the files lead to a diagnosis and are not used. `None` if the source
/// ended before its first set. Needs a tokio runtime.
pub async fn with_settings(
    mut objects: watch::Receiver<Option<Arc<ObjectSet>>>,
    mut files: Option<watch::Receiver<Arc<ObjectSet>>>,
) -> Option<watch::Receiver<Arc<ObjectSet>>> {
    objects.wait_for(Option::is_some).await.ok()?;
    let (sender, receiver) = watch::channel(both(&mut objects, files.as_mut()));
    tokio::spawn(async move {
        // The last set of a reader stays in use when the reader has stopped.
        let mut are_read = files.is_some();
        loop {
            tokio::select! {
                changed = objects.changed() => if changed.is_err() { return },
                changed = changed(files.as_mut()), if are_read => are_read = changed.is_ok(),
                () = sender.closed() => return,
            }
            sender.send_replace(both(&mut objects, files.as_mut()));
        }
    });
    Some(receiver)
}

/// Without files nothing ever changes.
async fn changed(files: Option<&mut watch::Receiver<Arc<ObjectSet>>>) -> Result<(), watch::error::RecvError> {
    match files {
        Some(files) => files.changed().await,
        None => std::future::pending().await,
    }
}

fn both(
    objects: &mut watch::Receiver<Option<Arc<ObjectSet>>>,
    files: Option<&mut watch::Receiver<Arc<ObjectSet>>>,
) -> Arc<ObjectSet> {
    let objects = objects.borrow_and_update().clone().unwrap_or_default();
    match files.map(|files| files.borrow_and_update().clone()) {
        Some(files) => Arc::new(merged(&objects, &files)),
        None => objects,
    }
}

fn merged(objects: &ObjectSet, files: &ObjectSet) -> ObjectSet {
    let mut set = ObjectSet {
        settings: files.settings.clone(),
        settings_places: files.settings_places.clone(),
        diagnoses: files.diagnoses.clone(),
        noticed: NoticedAt(objects.noticed.0.max(files.noticed.0)),
        ..objects.clone()
    };
    set.diagnoses.extend(files.cluster_places.iter().chain(&files.instance_places).map(|place| FileDiagnosis {
        file: place.file.to_string(),
        at: Some(place.spans.find("kind")),
        message: "ignored: objects come from Kubernetes, and only GatewaySettings from files".to_owned(),
        refused: true,
    }));
    set
}

#[cfg(test)]
mod tests {
    use portcullis_api::ReferencedData;
    use serde_json::json;

    use super::*;
    use crate::once::{Input, read_inputs};

    fn file(text: &str) -> ObjectSet {
        read_inputs(&[Input::Text { name: "f".to_owned(), bytes: text.as_bytes().to_vec() }]).unwrap()
    }

    const SETTINGS: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {name: x}\n";
    const CLUSTER: &str =
        "apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {name: a.test}\n";

    #[tokio::test]
    async fn clusters_come_from_one_side_and_settings_from_the_other() {
        let (objects, of_objects) = watch::channel(None);
        let (files, of_files) = watch::channel(Arc::new(file(SETTINGS)));
        let referenced_data = ReferencedData::secrets([]);
        let listed = ObjectSet { clusters: vec![Arc::new(json!({"a": 1}))], referenced_data, ..ObjectSet::default() };
        let (mut both, ()) = tokio::join!(async { with_settings(of_objects, Some(of_files)).await.unwrap() }, async {
            tokio::task::yield_now().await;
            objects.send_replace(Some(Arc::new(listed.clone())));
        });
        let first = both.borrow_and_update().clone();
        assert_eq!(
            (&first.clusters, first.settings.len(), &first.referenced_data),
            (&listed.clusters, 1, &listed.referenced_data)
        );
        files.send_replace(Arc::new(file(&format!("{SETTINGS}---\n{CLUSTER}"))));
        let second = both.wait_for(|set| set.diagnoses.len() == 1).await.unwrap().clone();
        assert_eq!(second.clusters, first.clusters, "a cluster in a file is not used");
        assert_eq!((second.diagnoses[0].at.unwrap().line, second.diagnoses[0].refused), (6, true));
        drop(files);
        objects.send_replace(Some(Arc::default()));
        let third = both.wait_for(|set| set.clusters.is_empty()).await.unwrap().clone();
        assert_eq!(third.settings, first.settings, "settings stay when their reader stopped");
    }

    #[tokio::test]
    async fn source_that_ends_before_its_first_set_yields_none() {
        let (_, objects) = watch::channel(None);
        assert!(with_settings(objects, None).await.is_none());
    }
}
