//! A question of a reader: how does the gateway treat this request, and why not otherwise?

use portcullis_core::identity::UserInfo;
use serde::{Deserialize, Serialize};

use crate::explain::paste::{self, PasteError, PastedRequest};
use crate::explain::{EnvironmentError, ExplainedObjects, Explanation, explain};

/// The longest name of a user or cluster, and list of groups, in bytes.
const MAX_NAME: usize = 4_096;

/// The fields of the form, and of the body of `/ui/api/explain`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Question {
    /// The request, in any form that [`paste`] reads.
    pub(super) text: String,
    /// The cluster; found by the request's host if empty.
    pub(super) cluster: String,
    /// The authenticated user; that of the log line if empty, and without one it is anonymous.
    pub(super) user: String,
    /// The user's groups, separated by commas.
    pub(super) groups: String,
}

/// A question that can be answered: the request, its cluster and its user.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: PastedRequest,
    pub(super) cluster: String,
    pub(super) user: Option<UserInfo>,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explained {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) cluster: String,
    /// None for an anonymous request.
    pub(super) user: Option<String>,
    pub(super) groups: Vec<String>,
    #[serde(flatten)]
    pub(super) explanation: Explanation,
    /// Why the newest version of the object would not be served as it is.
    pub(super) problems: Vec<String>,
    /// Parts that the text lacks, and assumptions.
    pub(super) notes: Vec<&'static str>,
}

/// The reason for which there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum QuestionError {
    #[error(transparent)]
    Paste(#[from] PasteError),
    #[error("a name is too long")]
    Name,
    #[error("the request has a token, which is not read here: name its user")]
    NeedsUser,
    #[error("there are several clusters, and the request names none of their hosts: name the cluster")]
    NeedsCluster,
    #[error("no cluster serves the host {0}: to clients there the gateway answers 503")]
    UnknownHost(String),
    #[error("there is no object yet")]
    NoObjects,
    #[error(transparent)]
    Objects(#[from] EnvironmentError),
}

impl Question {
    /// Reads the text and finds the cluster that it is about.
    pub(super) fn read(&self, objects: &ExplainedObjects) -> Result<Asked, QuestionError> {
        if [&self.cluster, &self.user, &self.groups].into_iter().any(|text| text.len() > MAX_NAME) {
            return Err(QuestionError::Name);
        }
        let request = paste::read(&self.text)?;
        let user = self.user(&request);
        if request.has_token && user.is_none() {
            return Err(QuestionError::NeedsUser);
        }
        let cluster = match (self.cluster.trim(), &request.cluster) {
            ("", Some(named)) => named.clone(),
            ("", None) => by_host(objects, request.host.as_deref())?,
            (chosen, _) => chosen.to_owned(),
        };
        Ok(Asked { request, cluster, user })
    }

    fn user(&self, request: &PastedRequest) -> Option<UserInfo> {
        let typed = self.groups.split(',').map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned);
        let (name, groups) = match (self.user.trim(), &request.user) {
            ("", None) => return None,
            ("", Some(logged)) => (logged.clone(), request.groups.clone()),
            (name, _) => (name.to_owned(), typed.collect()),
        };
        // The log line of an anonymous request names its user, too.
        let user = UserInfo::authenticated(name, String::new(), groups, Vec::new());
        (user.name != UserInfo::anonymous().name).then_some(user)
    }
}

/// The cluster that serves a host; without a host, the only one that there is.
fn by_host(objects: &ExplainedObjects, host: Option<&str>) -> Result<String, QuestionError> {
    let mut names = objects.names();
    let found = match (names.len(), host) {
        (0, _) => return Err(QuestionError::NoObjects),
        (1, _) => names.next().filter(|name| !name.is_empty()).ok_or(QuestionError::NoObjects)?,
        (_, None) => return Err(QuestionError::NeedsCluster),
        (_, Some(host)) => objects.by_host(host).ok_or_else(|| QuestionError::UnknownHost(host.to_owned()))?,
    };
    Ok(found.to_owned())
}

impl Asked {
    /// The answer, by the filter's own code. `instances` are those of the cluster, its holder first, if they are known.
    pub(super) fn answer(
        self,
        objects: &ExplainedObjects,
        instances: Option<&[String]>,
    ) -> Result<Explained, QuestionError> {
        let asked = (self.cluster.as_str(), instances);
        let (explanation, problems) = explain(objects, asked, &self.request, self.user.clone())?;
        let mut notes = self.request.notes.clone();
        if self.request.headers.iter().any(|(name, _)| name.to_ascii_lowercase().starts_with("impersonate-")) {
            notes.push("The server is assumed to let the user impersonate; the gateway asks it for each request.");
        }
        notes.push("Limits are judged as if this were the only request.");
        notes.push(
            "The request is taken for one under the cluster's own names: policies at Gateways, listeners and HTTPRoutes are not judged.",
        );
        let (user, groups) = self.user.map(|user| (user.name, user.groups)).unzip();
        Ok(Explained {
            method: self.request.method,
            target: self.request.target,
            cluster: self.cluster,
            user,
            groups: groups.unwrap_or_default(),
            explanation,
            problems,
            notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_sources::ObjectSet;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn objects(clusters: &[Value]) -> ExplainedObjects {
        let clusters = clusters.iter().cloned().map(Arc::new).collect();
        ExplainedObjects::new(Arc::new(ObjectSet { clusters, ..ObjectSet::default() }))
    }

    fn cluster(name: &str, names: &[&str]) -> Value {
        json!({
            "apiVersion": "proxy.kubegateway.io/v1alpha1", "kind": "UpstreamCluster", "metadata": {"name": name},
            "spec": {
                "servers": [{"endpoint": "https://192.0.2.1:6443"}],
                "secureServing": {"serverNames": names},
                "dispatchPolicies": [
                    {"rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"], "users": ["root"]}]},
                    {"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "userGroups": ["dev"]}],
                     "flowControlSchemaName": "few"},
                ],
                "flowControl": {"flowControlSchemas": [{"name": "few", "maxRequestsInflight": {"max": 5}}]},
            },
        })
    }

    fn asked(question: &Question, objects: &ExplainedObjects) -> Result<String, String> {
        question.read(objects).map(|asked| asked.cluster).map_err(|error| error.to_string())
    }

    fn question(text: &str) -> Question {
        Question { text: text.to_owned(), ..Question::default() }
    }

    #[test]
    fn cluster_is_found_by_choice_log_line_host_or_alone() {
        let all = objects(&[cluster("a.test", &["*.b.test"]), cluster("x.b.test", &[])]);
        assert_eq!(asked(&question("GET https://a.test:6443/api"), &all), Ok("a.test".to_owned()));
        assert_eq!(asked(&question("GET https://y.b.test/api"), &all), Ok("a.test".to_owned()));
        assert_eq!(asked(&question("GET https://X.b.test/api"), &all), Ok("x.b.test".to_owned()), "exact names first");
        let chosen = Question { cluster: " x.b.test ".to_owned(), ..question("GET https://a.test/api") };
        assert_eq!(asked(&chosen, &all), Ok("x.b.test".to_owned()));
        let logged = r#"{"cluster":"a.test","method":"GET","path":"/api"}"#;
        assert_eq!(asked(&question(logged), &all), Ok("a.test".to_owned()));
        assert!(asked(&question("GET /api"), &all).unwrap_err().contains("several clusters"));
        assert!(
            asked(&question("GET https://c.test/api"), &all).unwrap_err().contains("no cluster serves the host c.test")
        );
        let one = objects(&[cluster("a.test", &[])]);
        assert_eq!(asked(&question("GET /api"), &one), Ok("a.test".to_owned()));
        assert!(asked(&question("GET /api"), &objects(&[])).unwrap_err().contains("no object"));
    }

    #[test]
    fn objects_are_known_until_there_are_others() {
        let set = Arc::new(ObjectSet::default());
        let known = ExplainedObjects::new(Arc::clone(&set));
        assert!(known.is_of(&set) && !known.is_of(&Arc::new(ObjectSet::default())));
    }

    #[test]
    fn token_is_never_read_and_needs_a_user() {
        let all = objects(&[cluster("a.test", &[])]);
        let mut question = question("GET /api/v1/pods\nAuthorization: Bearer secret\n");
        assert!(asked(&question, &all).unwrap_err().contains("name its user"));
        question.user = "alice".to_owned();
        let asked = question.read(&all).unwrap();
        assert!(!format!("{asked:?}").contains("secret"), "{asked:?}");
    }

    #[test]
    fn answer_names_policy_limit_and_why_no_other() {
        let all = objects(&[cluster("a.test", &[])]);
        let mut question = question("GET /api/v1/namespaces/x/secrets");
        (question.user, question.groups) = ("alice".to_owned(), "dev, ops".to_owned());
        let answer = question.read(&all).unwrap().answer(&all, None).unwrap();
        let dispatch = answer.explanation.dispatch.as_ref().unwrap();
        assert_eq!((dispatch.policy, dispatch.flow_control_schema.as_deref()), (Some(1), Some("few")));
        assert_eq!(dispatch.trace.len(), 1, "{:?}", dispatch.trace);
        assert_eq!(answer.groups, ["dev", "ops", "system:authenticated"]);
        question.user.clear();
        let anonymous = question.read(&all).unwrap().answer(&all, None).unwrap();
        assert!(anonymous.user.is_none() && anonymous.explanation.refusal.is_some());
        question.cluster = "b.test".to_owned();
        assert!(question.read(&all).unwrap().answer(&all, None).is_err(), "no such cluster");
    }
}
