use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_api::{Materials, resolve};
use serde_json::Value;

use super::documents::Documents;

/// For how long an object is served with what its references led to, after that is gone.
pub(super) const USUAL: Duration = Duration::from_secs(24 * 60 * 60);

/// What a status says of it.
pub(super) const TOLD: &str = "; what the version of it refers to that was accepted last is withdrawn: that version is still served with the keys it had then, for as long as --keep-withdrawn-hours says, or until the control plane restarts";

/// Objects whose version that was accepted last refers to a Secret or file that is there no more.
///
/// It may have been deleted by mistake, and then the cluster is to go on; or to take its keys out of use, and then they are
/// not to stay in use for ever.
#[derive(Debug)]
pub(super) struct Withdrawn {
    keep: Duration,
    /// Documents that were accepted last, as they were written.
    written: Documents,
    since: BTreeMap<String, Instant>,
}

impl Default for Withdrawn {
    fn default() -> Self {
        Self { keep: USUAL, written: Documents::new(), since: BTreeMap::new() }
    }
}

/// What becomes of a version that was accepted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// All that it refers to is there, or it refers to nothing.
    Whole,
    /// Something is withdrawn; it is served until the time is over.
    ForNow,
    /// The time is over.
    NoLonger,
}

impl Withdrawn {
    pub(super) fn keeping(keep: Duration) -> Self {
        Self { keep, ..Self::default() }
    }

    /// Asked of an object whose newest version is refused.
    pub(super) fn judge(&mut self, name: &str, materials: &Materials, now: Instant) -> Kept {
        let is_whole = self.written.get(name).is_none_or(|written| resolve(written, materials).problems.is_empty());
        if is_whole {
            self.since.remove(name);
            return Kept::Whole;
        }
        let since = *self.since.entry(name.to_owned()).or_insert(now);
        if now.saturating_duration_since(since) < self.keep { Kept::ForNow } else { Kept::NoLonger }
    }

    /// Takes the documents, as they were written, whose newest version is accepted; of the others only those that are
    /// still there count.
    pub(super) fn follow(&mut self, accepted: impl Iterator<Item = (String, Arc<Value>)>, served: &Documents) {
        for (name, document) in accepted {
            self.since.remove(&name);
            self.written.insert(name, document);
        }
        self.written.retain(|name, _| served.contains_key(name));
        self.since.retain(|name, _| served.contains_key(name));
    }

    /// How many objects are served so.
    pub(super) fn count(&self) -> usize {
        self.since.len()
    }

    /// When the time of the next one is over.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.since.values().filter_map(|since| since.checked_add(self.keep)).min()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use portcullis_api::{SecretBytes, SecretMaterial};
    use portcullis_sources::{Input, ObjectSet, read_inputs};

    use super::super::model::{Model, Update};
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A set of objects in which `a.test` refers to the Secret `wanted`, and this one is there.
    fn set(wanted: &str, there: Option<&str>) -> ObjectSet {
        let text = format!(
            "apiVersion: portcullis.dev/v1alpha1\nkind: GatewaySettings\nmetadata: {{name: a}}\n---\n\
             apiVersion: proxy.kubegateway.io/v1alpha1\nkind: UpstreamCluster\nmetadata: {{name: a.test}}\nspec:\n  \
             servers: [{{endpoint: \"https://10.0.0.1\"}}]\n  clientConfig: {{insecure: true}}\n  \
             portcullis: {{references: {{token: {{secret: {{name: {wanted}}}}}, serving: {{secret: {{name: {wanted}}}}}}}}}\n  \
             dispatchPolicies: [{{rules: [{{verbs: [get], nonResourceURLs: [\"/\"]}}]}}]\n"
        );
        let set = read_inputs(&[Input::Text { name: "f.yaml".to_owned(), bytes: text.into() }]).unwrap();
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        let data = [("token", "T0KEN".to_owned()), ("tls.crt", certificate.pem()), ("tls.key", key.serialize_pem())];
        let data = data.map(|(name, text)| (name.to_owned(), SecretBytes::new(text.into_bytes())));
        let secret = SecretMaterial { clusters: ["a.test".to_owned()].into(), data: data.into() };
        let secrets = there.map(|name| (name.to_owned(), secret)).into_iter().collect();
        ObjectSet { materials: Materials::Secrets(secrets), ..set }
    }

    fn is_served(update: &Update) -> bool {
        // Who is gone is said farewell to, without a cluster.
        let clusters = portcullis_translate::type_urls::cluster();
        update.snapshot.resources().any(|(url, _, one)| url == clusters && one.owner() == Some("a.test"))
    }

    fn message(update: &Update) -> String {
        update.diagnoses.iter().find(|one| one.name == "a.test").unwrap().message.clone()
    }

    #[test]
    fn what_is_withdrawn_is_served_for_a_while_and_said_to_be() {
        let start = Instant::now();
        let mut model = Model::after(None, 24 * HOUR);
        let mut at = |hours: u32, wanted: &str, there: Option<&str>| {
            let update = model.update(&set(wanted, there), &BTreeSet::new(), start + hours * HOUR).unwrap();
            (is_served(&update), update.withdrawn, message(&update), model.next_change())
        };
        let (served, withdrawn, told, _) = at(0, "one", Some("one"));
        assert!(served && withdrawn == 0, "{told}");
        let (served, withdrawn, told, next) = at(1, "one", None);
        assert!(served && withdrawn == 1 && told.contains("is withdrawn"), "{told}");
        assert_eq!(next, Some(start + 25 * HOUR));
        let (served, withdrawn, ..) = at(24, "one", None);
        assert!(served && withdrawn == 1);
        let (served, withdrawn, told, next) = at(25, "one", None);
        assert!(!served && withdrawn == 0 && next.is_none_or(|next| next > start + 25 * HOUR), "{told}");
        let (served, ..) = at(26, "one", Some("one"));
        assert!(served, "it is back");
    }

    #[test]
    fn a_wrong_edit_is_no_withdrawal() {
        let start = Instant::now();
        let mut model = Model::after(None, Duration::ZERO);
        let mut at = |hours: u32, wanted: &str, there: Option<&str>| {
            let update = model.update(&set(wanted, there), &BTreeSet::new(), start + hours * HOUR).unwrap();
            (is_served(&update), update.withdrawn, message(&update))
        };
        assert!(at(0, "one", Some("one")).0);
        let (served, withdrawn, told) = at(100, "other", Some("one"));
        assert!(served && withdrawn == 0 && told.contains("still served") && !told.contains("withdrawn"), "{told}");
        let (served, ..) = at(101, "other", None);
        assert!(!served, "now the one that is served is withdrawn, and nothing is kept");
    }
}
