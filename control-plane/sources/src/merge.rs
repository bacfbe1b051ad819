use std::sync::Arc;

use tokio::sync::watch;

use crate::{FileDiagnosis, ObjectSet};

/// Puts together the `GatewaySettings` of files and the objects of another source: a set whenever either has a newer one,
/// none before both have one. `UpstreamCluster`s that stand in the files are told and not used. Needs a tokio runtime.
pub fn with_settings(
    mut objects: watch::Receiver<Option<Arc<ObjectSet>>>,
    mut files: watch::Receiver<Arc<ObjectSet>>,
) -> watch::Receiver<Option<Arc<ObjectSet>>> {
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let newest = objects.borrow_and_update().clone();
            let settings = files.borrow_and_update().clone();
            if let Some(newest) = newest {
                sender.send_replace(Some(Arc::new(merged(&newest, &settings))));
            }
            let gone = tokio::select! {
                changed = objects.changed() => changed.is_err(),
                changed = files.changed() => changed.is_err(),
                () = sender.closed() => true,
            };
            if gone {
                return;
            }
        }
    });
    receiver
}

fn merged(objects: &ObjectSet, files: &ObjectSet) -> ObjectSet {
    let mut set = ObjectSet {
        settings: files.settings.clone(),
        settings_places: files.settings_places.clone(),
        diagnoses: files.diagnoses.clone(),
        ..objects.clone()
    };
    set.diagnoses.extend(files.cluster_places.iter().map(|place| FileDiagnosis {
        file: place.file.clone(),
        at: Some(place.spans.find("kind")),
        message: "ignored: UpstreamClusters come from Kubernetes, and only GatewaySettings from files".to_owned(),
        refused: true,
    }));
    set
}

#[cfg(test)]
mod tests {
    use portcullis_api::Materials;
    use serde_json::json;

    use super::*;
    use crate::{Input, read_inputs};

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
        let mut both = with_settings(of_objects, of_files);
        assert!(both.borrow().is_none(), "nothing before the first list");
        let materials = Materials::Secrets(std::collections::BTreeMap::new());
        let listed = ObjectSet { clusters: vec![Arc::new(json!({"a": 1}))], materials, ..ObjectSet::default() };
        objects.send_replace(Some(Arc::new(listed.clone())));
        let first = both.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        assert_eq!((first.clusters.len(), first.settings.len(), &first.materials), (1, 1, &listed.materials));
        files.send_replace(Arc::new(file(&format!("{SETTINGS}---\n{CLUSTER}"))));
        let told = |set: &Option<Arc<ObjectSet>>| set.as_ref().is_some_and(|set| set.diagnoses.len() == 1);
        let second = both.wait_for(told).await.unwrap().clone().unwrap();
        assert_eq!(second.clusters, first.clusters, "a cluster in a file is not used");
        assert_eq!((second.diagnoses[0].at.unwrap().line, second.diagnoses[0].refused), (6, true));
    }
}
