//! Certificates with which listeners were served before an edit turned them to Secrets that are not read yet.

use std::collections::BTreeMap;
use std::time::Duration;

use portcullis_attach::{
    Attached, ContentName, FormerCertificates, GatewayObjects, ListenerName, ListenerRole, ObjectName, listener_secrets,
};
use tokio::time::Instant;

use super::secrets::GatewayContents;

/// How long a listener keeps the certificates of before while none of the new ones is read: twice as long as a read may take.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Listeners as they were served last.
#[derive(Debug, Default)]
pub(super) struct FormerListeners(BTreeMap<ListenerName, FormerListener>);

#[derive(Debug, PartialEq, Eq)]
struct FormerListener {
    /// The Gateway's, so that one of the same name keeps nothing of it.
    uid: Option<String>,
    certificates: Vec<ObjectName>,
    /// Until when it keeps them. The time is that of the first edit of several.
    until: Option<Instant>,
}

impl FormerListeners {
    /// The certificates of listeners some of whose Secrets may have to be read first.
    pub(super) fn possible(
        &self,
        objects: &GatewayObjects,
        contents: &GatewayContents,
        uid: impl Fn(&ObjectName) -> Option<String>,
    ) -> FormerCertificates {
        let awaiting = self.awaiting(objects, uid, |secret| !contents.is_read(secret));
        awaiting.into_iter().filter_map(|name| Some((name.clone(), self.0.get(&name)?.certificates.clone()))).collect()
    }

    /// The certificates that listeners keep at `now`, which are those of listeners some of whose Secrets are not read.
    pub(super) fn kept(
        &mut self,
        objects: &GatewayObjects,
        contents: &GatewayContents,
        uid: impl Fn(&ObjectName) -> Option<String>,
        now: Instant,
    ) -> FormerCertificates {
        let awaiting = self.awaiting(objects, uid, |secret| contents.is_awaited(secret));
        for (name, former) in &mut self.0 {
            former.until = awaiting.contains(name).then(|| former.until.unwrap_or(now + KEPT_FOR));
        }
        self.names(now)
    }

    /// The certificates that listeners keep at `now`, as of the last edit.
    pub(super) fn names(&self, now: Instant) -> FormerCertificates {
        let is_kept = |former: &FormerListener| former.until.is_some_and(|until| now < until);
        let kept = self.0.iter().filter(|(_, former)| is_kept(former));
        kept.map(|(name, former)| (name.clone(), former.certificates.clone())).collect()
    }

    /// Takes the listeners that are served now. One that is served no longer is forgotten.
    pub(super) fn remember(&mut self, attached: &Attached, uid: impl Fn(&ObjectName) -> Option<String>) {
        let before = std::mem::take(&mut self.0);
        let listeners = attached
            .served
            .iter()
            .flat_map(|gateway| gateway.listeners.iter().map(move |listener| (gateway, listener)));
        for (gateway, listener) in listeners {
            let ListenerRole::Terminate { certificates, .. } = &listener.role else { continue };
            let name = ListenerName { gateway: gateway.gateway.clone(), listener: listener.name.clone() };
            let uid = uid(&gateway.gateway);
            let until = before.get(&name).filter(|before| before.uid == uid).and_then(|before| before.until);
            self.0.insert(name, FormerListener { uid, certificates: certificates.clone(), until });
        }
    }

    /// The listeners of the same Gateways as before that have a Secret for which `is_awaited` holds.
    fn awaiting(
        &self,
        objects: &GatewayObjects,
        uid: impl Fn(&ObjectName) -> Option<String>,
        is_awaited: impl Fn(&ContentName) -> bool,
    ) -> Vec<ListenerName> {
        let mut awaiting = Vec::new();
        for gateway in &objects.gateways {
            let name = ObjectName::of(&gateway.metadata);
            let uid = uid(&name);
            let of_gateway = |listener: &str| ListenerName { gateway: name.clone(), listener: listener.to_owned() };
            let known = gateway.spec.listeners.iter().filter_map(|listener| {
                let name = of_gateway(&listener.name);
                let is_same = self.0.get(&name)?.uid == uid;
                (is_same && listener_secrets(gateway, listener).any(|secret| is_awaited(&secret))).then_some(name)
            });
            awaiting.extend(known);
        }
        awaiting
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use portcullis_attach::{
        ContentKind, DoorPolicies, HostPattern, HostTable, ServedGateway, ServedListener, referred_contents,
    };

    use super::super::content_documents::{made_secret, read_document};
    use super::super::secrets::{ContentAnswer, referring};
    use super::*;

    fn gateway() -> ObjectName {
        ObjectName::new("infra", "g")
    }

    fn secret(name: &str) -> ObjectName {
        ObjectName::new("infra", name)
    }

    fn served_with(secrets: &[&str]) -> Attached {
        let certificates = secrets.iter().map(|name| secret(name)).collect();
        let role = ListenerRole::Terminate { certificates, client_ca: None, routes: HostTable::default() };
        let listener = ServedListener { name: "l".to_owned(), port: 443, host: HostPattern::Any, role };
        let listeners = if secrets.is_empty() { Vec::new() } else { vec![listener] };
        let served = ServedGateway {
            gateway: gateway(),
            addresses: Vec::new(),
            settings: None,
            listeners,
            policies: DoorPolicies::default(),
        };
        Attached { served: vec![Arc::new(served)], ..Attached::default() }
    }

    fn uid(text: &str) -> impl Fn(&ObjectName) -> Option<String> + Copy {
        move |_| Some(text.to_owned())
    }

    /// The contents of these objects, of which some are answered for.
    fn contents(objects: &GatewayObjects, answers: &[(&str, ContentAnswer)]) -> GatewayContents {
        let mut contents = GatewayContents::default();
        contents.follow(&referred_contents(objects, &FormerCertificates::new()));
        for (name, answer) in answers {
            let name = ContentName { kind: ContentKind::Secret, object: secret(name) };
            contents.take(&name, answer.clone(), Instant::now());
        }
        contents
    }

    fn kept_names(former: &FormerCertificates) -> Vec<&str> {
        former.values().flatten().map(|name| name.name.as_str()).collect()
    }

    #[test]
    fn former_certificates_are_kept_while_new_ones_are_not_read() {
        let read = || ContentAnswer::Found(read_document(ContentKind::Secret, &made_secret()));
        let found = || ContentAnswer::Found(Err("malformed".to_owned()));
        for (case, answers, of, expected) in [
            ("nothing is answered", vec![], "u", vec!["a"]),
            ("the API fails", vec![("b", ContentAnswer::Failed)], "u", vec!["a"]),
            ("a right is missing", vec![("b", ContentAnswer::Refused)], "u", vec!["a"]),
            ("the new one is read", vec![("b", read())], "u", vec![]),
            ("it is malformed", vec![("b", found())], "u", vec![]),
            ("it is not there", vec![("b", ContentAnswer::Absent)], "u", vec![]),
            ("another Gateway of the name", vec![], "v", vec![]),
        ] {
            let mut former = FormerListeners::default();
            former.remember(&served_with(&["a"]), uid("u"));
            let objects = referring(&["b"]);
            let contents = contents(&objects, &answers);
            assert_eq!(kept_names(&former.kept(&objects, &contents, uid(of), Instant::now())), expected, "{case}");
        }
        let mut former = FormerListeners::default();
        former.remember(&served_with(&["a"]), uid("u"));
        let objects = referring(&["b"]);
        let none = GatewayContents::default();
        assert_eq!(kept_names(&former.possible(&objects, &none, uid("u"))), ["a"]);
        assert!(former.kept(&objects, &none, uid("u"), Instant::now()).is_empty(), "one that may not be read");
    }

    #[test]
    fn former_certificates_are_kept_for_a_time() {
        let start = Instant::now();
        let mut former = FormerListeners::default();
        let at = |name: &str, seconds: u64, former: &mut FormerListeners| {
            let (objects, now) = (referring(&[name]), start + Duration::from_secs(seconds));
            let kept = former.kept(&objects, &contents(&objects, &[]), uid("u"), now);
            former.remember(&served_with(&kept_names(&kept)), uid("u"));
            kept_names(&kept).len()
        };
        former.remember(&served_with(&["a"]), uid("u"));
        assert_eq!(at("b", 0, &mut former), 1);
        assert_eq!(former.names(start + Duration::from_secs(9)).len(), 1);
        assert_eq!(at("c", 9, &mut former), 1, "another edit");
        assert_eq!(former.names(start + KEPT_FOR).len(), 0, "which adds no time");
        assert_eq!(at("c", 10, &mut former), 0);
        assert_eq!(at("d", 11, &mut former), 0, "a listener that is closed has nothing to keep");
    }

    #[test]
    fn listener_that_is_read_again_has_the_whole_time() {
        let start = Instant::now();
        let mut former = FormerListeners::default();
        former.remember(&served_with(&["a"]), uid("u"));
        let turned = referring(&["b"]);
        assert_eq!(former.kept(&turned, &contents(&turned, &[]), uid("u"), start).len(), 1);
        let back = referring(&["a"]);
        let read = ContentAnswer::Found(read_document(ContentKind::Secret, &made_secret()));
        assert!(former.kept(&back, &contents(&back, &[("a", read)]), uid("u"), start + KEPT_FOR / 2).is_empty());
        former.remember(&served_with(&["a"]), uid("u"));
        assert_eq!(former.kept(&turned, &contents(&turned, &[]), uid("u"), start + KEPT_FOR).len(), 1);
        assert_eq!(former.names(start + KEPT_FOR + KEPT_FOR / 2).len(), 1);
    }
}
