//! Secrets and `ConfigMaps` to which Gateways and upstreams refer, as they were read last. Nothing is kept of any that none of them
//! names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portcullis_api::{KeyPair, PublicBytes, SecretData};
use portcullis_attach::{ContentKind, ContentName, ObjectName, ReferredContents, Usability};
use tokio::time::Instant;

use super::content_documents::Certificates;

/// How long a right has to be missing before an object that was read is not used any more: an apiserver that starts refuses
/// everything for a moment.
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// Why there is nothing of an object for which nothing was answered.
const UNREAD: &str = "it is not read yet";

/// The certificates that were read, by their objects. A copy shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GatewayContents(BTreeMap<ContentName, KnownContent>);

/// The outcome of reading an object once. No variant but the first holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContentAnswer {
    /// It is there, and what is in it.
    Found(Result<Certificates, String>),
    /// It is not there.
    Absent,
    /// It may not be read.
    Refused,
    /// The API did not answer as it should.
    Failed,
}

/// An object, as it was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownContent {
    state: ContentState,
    /// Since when it may not be read, if that is what the API says.
    refused_since: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ContentState {
    /// Nothing was answered yet.
    Unread,
    /// It cannot be read, and nothing is known of it.
    Unreadable(String),
    Absent,
    Read(Result<Certificates, String>),
}

impl GatewayContents {
    /// Forgets all that are not in `referred`, and adds the new ones. Returns whether anything was forgotten or added.
    pub(super) fn follow(&mut self, referred: &ReferredContents) -> bool {
        let before = self.0.len();
        self.0.retain(|name, _| referred.contains(name));
        let is_less = self.0.len() < before;
        let kept = self.0.len();
        for name in referred.iter() {
            let unread = || KnownContent { state: ContentState::Unread, refused_since: None };
            self.0.entry(name.clone()).or_insert_with(unread);
        }
        is_less || self.0.len() > kept
    }

    /// Takes what was read at `now`. Of one that is not known there is no Gateway any more.
    pub(super) fn take(&mut self, name: &ContentName, answer: ContentAnswer, now: Instant) {
        let Some(known) = self.0.get_mut(name) else { return };
        if answer != ContentAnswer::Refused {
            known.refused_since = None;
        }
        known.state = match answer {
            ContentAnswer::Found(read) => ContentState::Read(read),
            ContentAnswer::Absent => ContentState::Absent,
            ContentAnswer::Refused => {
                let since = *known.refused_since.get_or_insert(now);
                if known.is_read() && now.saturating_duration_since(since) < REFUSED_FOR {
                    return;
                }
                ContentState::Unreadable(missing_right(name))
            }
            // The last that is known stays, as in an outage.
            ContentAnswer::Failed if known.is_read() => return,
            ContentAnswer::Failed => ContentState::Unreadable("the API does not answer for it as it should".to_owned()),
        };
    }

    /// Whether nothing was answered for this one yet.
    pub(super) fn is_unread(&self, name: &ContentName) -> bool {
        self.0.get(name).is_some_and(|known| known.state == ContentState::Unread)
    }

    /// Whether each of these was answered for, or, if `are_all_read`, read or known not to be there.
    pub(super) fn has_answers(&self, referred: &ReferredContents, are_all_read: bool) -> bool {
        let has_answer = |name: &ContentName| {
            let known = self.0.get(name);
            known.is_some_and(|known| known.state != ContentState::Unread && (known.is_read() || !are_all_read))
        };
        referred.iter().all(has_answer)
    }

    /// Secrets for the verdicts. One that is not there is not in them.
    pub(super) fn secrets(&self) -> BTreeMap<ObjectName, Usability> {
        self.usability(ContentKind::Secret)
    }

    /// `ConfigMaps` for the verdicts. One that is not there is not in them.
    pub(super) fn config_maps(&self) -> BTreeMap<ObjectName, Usability> {
        self.usability(ContentKind::ConfigMap)
    }

    /// The certificates of listeners with their keys, by Secrets.
    pub(super) fn serving(&self) -> BTreeMap<ObjectName, Arc<KeyPair>> {
        let pair = |certificates: &Certificates| match certificates {
            Certificates::Serving(pair) => Some(Arc::clone(pair)),
            Certificates::Authorities(_) | Certificates::OfUpstreams(_) => None,
        };
        self.usable().filter_map(|(name, certificates)| Some((name.object.clone(), pair(certificates)?))).collect()
    }

    /// The CA certificates for clients, by `ConfigMaps`.
    pub(super) fn authorities(&self) -> BTreeMap<ObjectName, Arc<PublicBytes>> {
        let bundle = |certificates: &Certificates| match certificates {
            Certificates::Authorities(bundle) => Some(Arc::clone(bundle)),
            Certificates::Serving(_) | Certificates::OfUpstreams(_) => None,
        };
        self.usable().filter_map(|(name, certificates)| Some((name.object.clone(), bundle(certificates)?))).collect()
    }

    /// A Secret that a `KubernetesUpstream` refers to, or why there is nothing of it.
    pub(super) fn upstream_secret(&self, object: &ObjectName) -> Result<&SecretData, String> {
        match self.content(ContentKind::UpstreamSecret, object)? {
            Certificates::OfUpstreams(secret) => Ok(secret),
            Certificates::Serving(_) | Certificates::Authorities(_) => Err(UNREAD.to_owned()),
        }
    }

    /// The CAs of a `ConfigMap`, or why there are none.
    pub(super) fn authority(&self, object: &ObjectName) -> Result<&PublicBytes, String> {
        match self.content(ContentKind::ConfigMap, object)? {
            Certificates::Authorities(bundle) => Ok(bundle),
            Certificates::Serving(_) | Certificates::OfUpstreams(_) => Err(UNREAD.to_owned()),
        }
    }

    fn content(&self, kind: ContentKind, object: &ObjectName) -> Result<&Certificates, String> {
        let name = ContentName { kind, object: object.clone() };
        match self.0.get(&name).map(|known| &known.state) {
            None | Some(ContentState::Unread) => Err(UNREAD.to_owned()),
            Some(ContentState::Absent) => Err(format!("there is no {name}")),
            Some(ContentState::Unreadable(why) | ContentState::Read(Err(why))) => Err(why.clone()),
            Some(ContentState::Read(Ok(certificates))) => Ok(certificates),
        }
    }

    fn usable(&self) -> impl Iterator<Item = (&ContentName, &Certificates)> {
        self.0.iter().filter_map(|(name, known)| match &known.state {
            ContentState::Read(Ok(certificates)) => Some((name, certificates)),
            _ => None,
        })
    }

    fn usability(&self, kind: ContentKind) -> BTreeMap<ObjectName, Usability> {
        let of_kind = self.0.iter().filter(|(name, _)| name.kind == kind);
        of_kind.filter_map(|(name, known)| Some((name.object.clone(), known.usability()?))).collect()
    }
}

impl KnownContent {
    /// Whether something is known of it.
    fn is_read(&self) -> bool {
        matches!(self.state, ContentState::Read(_) | ContentState::Absent)
    }

    fn usability(&self) -> Option<Usability> {
        match &self.state {
            ContentState::Unread => Some(Usability::Malformed(UNREAD.to_owned())),
            ContentState::Absent => None,
            ContentState::Read(Ok(_)) => Some(Usability::Usable),
            ContentState::Unreadable(why) | ContentState::Read(Err(why)) => Some(Usability::Malformed(why.clone())),
        }
    }
}

fn missing_right(name: &ContentName) -> String {
    let (resource, namespace) = (resource(name.kind), &name.object.namespace);
    format!(
        "the control plane may not get {resource} in namespace {namespace} (portcullis rbac --control-plane --gateway-api --gateway-secrets {namespace})"
    )
}

/// The resource of a kind, as rights name it.
pub(super) fn resource(kind: ContentKind) -> &'static str {
    match kind {
        ContentKind::Secret | ContentKind::UpstreamSecret => "secrets",
        ContentKind::ConfigMap => "configmaps",
    }
}

#[cfg(test)]
pub(super) use tests::referred;

#[cfg(test)]
mod tests {
    use portcullis_attach::{GatewayObjects, referred_contents};
    use portcullis_gateway_api::read_object;
    use serde_json::{Value, json};

    use super::super::content_documents::{made_secret, read_document};
    use super::*;

    fn secret_name(name: &str) -> ContentName {
        ContentName { kind: ContentKind::Secret, object: ObjectName::new("infra", name) }
    }

    /// Those of a Gateway with certificates of these names.
    pub(in super::super) fn referred(names: &[&str]) -> ReferredContents {
        let references: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        let listener = json!({"name": "l", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": references}});
        let version = "gateway.networking.k8s.io/v1";
        let gateway = json!({
            "apiVersion": version, "kind": "Gateway", "metadata": {"name": "g", "namespace": "infra"},
            "spec": {"gatewayClassName": "c", "listeners": [listener]},
        });
        let class = json!({
            "apiVersion": version, "kind": "GatewayClass", "metadata": {"name": "c"},
            "spec": {"controllerName": portcullis_attach::CONTROLLER_NAME},
        });
        let mut objects = GatewayObjects::default();
        [class, gateway].iter().for_each(|document| objects.add(read_object(document).unwrap()));
        referred_contents(&objects)
    }

    #[test]
    fn content_that_no_gateway_names_is_forgotten() {
        let found = read_document(ContentKind::Secret, &made_secret());
        let (mut contents, now) = (GatewayContents::default(), Instant::now());
        assert!(contents.follow(&referred(&["a", "b"])) && !contents.follow(&referred(&["a", "b"])));
        contents.take(&secret_name("a"), ContentAnswer::Found(found.clone()), now);
        assert_eq!(contents.serving().into_keys().collect::<Vec<_>>(), [ObjectName::new("infra", "a")]);
        assert!(contents.follow(&referred(&["b"])) && contents.serving().is_empty());
        contents.take(&secret_name("a"), ContentAnswer::Found(found), now);
        assert!(contents.serving().is_empty(), "an answer that comes too late is of no Gateway");
        assert_eq!(contents.0.len(), 1);
    }

    #[test]
    fn known_content_stays_while_it_cannot_be_read() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let name = secret_name("a");
        let read = || ContentAnswer::Found(Err("malformed".to_owned()));
        let (refused, failed, absent) = (ContentAnswer::Refused, ContentAnswer::Failed, ContentAnswer::Absent);
        for (case, answers, expected) in [
            ("nothing yet", vec![], Some("not read yet")),
            ("a right is missing", vec![(0, refused.clone())], Some("may not get secrets in namespace infra")),
            ("a failure", vec![(0, failed.clone())], Some("does not answer")),
            ("a failure later", vec![(0, read()), (60, failed.clone())], Some("malformed")),
            (
                "a right is missing for a moment",
                vec![(0, read()), (5, refused.clone()), (34, refused.clone())],
                Some("malformed"),
            ),
            ("for longer", vec![(0, read()), (5, refused.clone()), (35, refused.clone())], Some("may not get secrets")),
            (
                "a moment twice",
                vec![(0, read()), (5, refused.clone()), (20, read()), (40, refused.clone())],
                Some("malformed"),
            ),
            ("it is not there", vec![(0, read()), (5, absent)], None),
        ] {
            let mut contents = GatewayContents::default();
            contents.follow(&referred(&["a"]));
            answers.into_iter().for_each(|(second, answer)| contents.take(&name, answer, at(second)));
            let found = contents.secrets().remove(&name.object);
            match (found, expected) {
                (Some(Usability::Malformed(why)), Some(expected)) => assert!(why.contains(expected), "{case}: {why}"),
                (None, None) => {}
                other => panic!("{case}: {other:?}"),
            }
        }
    }
}
