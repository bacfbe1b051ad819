use portcullis_api::{Cluster, Settings, Transport};
use serde_json::{Value, json};

use crate::{Diagnosis, check};

/// Whether connections may be passed on to an `UpstreamCluster`.
#[derive(Debug)]
pub(crate) enum Passage {
    /// They may.
    Open(Box<Cluster>),
    /// All connections to it are closed: it is frozen, or a profile is in effect.
    Closed,
    /// They may not, and why: it keeps users or requests out, whom passing on would let in. Authors of routes read it, who may not
    /// read the object.
    Refused(String),
}

impl Passage {
    /// The rules are those of an object that says `transport: TLSPassthrough` itself, whatever this one says.
    pub(crate) fn of(document: &Value, name: &str, settings: &Settings) -> Self {
        let (cluster, diagnosis) = checked(document, name, settings);
        match cluster {
            Some(cluster) if cluster.gates.deny_all_requests => Self::Closed,
            Some(cluster) => Self::Open(Box::new(cluster)),
            None => Self::Refused(diagnosis.outline()),
        }
    }
}

/// The diagnosis of an `UpstreamCluster` as one to whose servers routes pass connections on. If it is refused, none is: its message
/// is why.
pub fn passage_diagnosis(document: &Value, name: &str, settings: &Settings) -> Diagnosis {
    checked(document, name, settings).1
}

fn checked(document: &Value, name: &str, settings: &Settings) -> (Option<Cluster>, Diagnosis) {
    check(&passed_on(document), name, settings, None)
}

/// The document with the way in which its connections are passed on.
fn passed_on(document: &Value) -> Value {
    let mut document = document.clone();
    let spec = document.get_mut("spec").and_then(Value::as_object_mut);
    let own = spec.map(|fields| fields.entry("portcullis").or_insert_with(|| json!({})));
    if let Some(fields) = own.and_then(Value::as_object_mut) {
        fields.insert("transport".to_owned(), json!(Transport::Passthrough.as_str()));
    }
    document
}
