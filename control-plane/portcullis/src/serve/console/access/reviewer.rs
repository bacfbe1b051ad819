use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use portcullis_core::identity::{Extra, UserInfo};

/// The time limit of one review.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A kind of objects of which a reader may have a right to single ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadKind {
    /// `UpstreamCluster`.
    Cluster,
    /// `Instance`.
    Instance,
}

impl ReadKind {
    /// The API group and the resource.
    const fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Cluster => ("proxy.kubegateway.io", "upstreamclusters"),
            Self::Instance => ("portcullis.dev", "instances"),
        }
    }
}

/// A right of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right<'a> {
    /// To list all `UpstreamClusters`.
    List,
    /// To get one object.
    Get(ReadKind, &'a str),
}

/// The review has no result: the API does not answer, or does not allow the question.
#[derive(Debug, thiserror::Error)]
#[error("the credential cannot be reviewed now")]
pub(crate) struct ReviewFailed;

/// Judges tokens and rights.
pub(crate) trait Reviewer: Send + Sync {
    /// The user of a token; `None` if it is rejected.
    fn user<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, ReviewFailed>>;

    /// Whether a user has a right.
    fn allows<'a>(&'a self, user: &'a UserInfo, right: Right<'a>) -> BoxFuture<'a, Result<bool, ReviewFailed>>;
}

/// The Kubernetes API that stores the objects.
#[derive(Clone)]
pub(crate) struct KubernetesReviewer {
    client: Client,
}

impl KubernetesReviewer {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    async fn review_token(&self, token: &str) -> Result<Option<UserInfo>, ReviewFailed> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let status = in_time(reviews.create(&PostParams::default(), &review)).await?.status.ok_or(ReviewFailed)?;
        let is_error = status.error.is_some_and(|error| !error.is_empty());
        // An authenticator that failed says nothing about the token, and yet it is not authenticated.
        if status.authenticated != Some(true) || is_error {
            return Ok(None);
        }
        let user = status.user.ok_or(ReviewFailed)?;
        let name = user.username.filter(|name| !name.is_empty()).ok_or(ReviewFailed)?;
        let extra = user.extra.unwrap_or_default().into_iter().map(|(key, values)| Extra { key, values });
        let groups = user.groups.unwrap_or_default();
        Ok(Some(UserInfo { name, uid: user.uid.unwrap_or_default(), groups, extra: extra.collect() }))
    }

    async fn review_access(&self, user: &UserInfo, right: Right<'_>) -> Result<bool, ReviewFailed> {
        let (verb, kind, name) = match right {
            Right::List => ("list", ReadKind::Cluster, None),
            Right::Get(kind, name) => ("get", kind, Some(name.to_owned())),
        };
        let (group, resource) = kind.resource();
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some(verb.to_owned()),
            name,
            ..ResourceAttributes::default()
        };
        let extra = user.extra.iter().map(|extra| (extra.key.clone(), extra.values.clone())).collect();
        let spec = SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(user.groups.clone()),
            extra: Some(extra),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let status = in_time(reviews.create(&PostParams::default(), &review)).await?.status.ok_or(ReviewFailed)?;
        Ok(status.allowed && status.denied != Some(true))
    }
}

impl Reviewer for KubernetesReviewer {
    fn user<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, ReviewFailed>> {
        Box::pin(self.review_token(token))
    }

    fn allows<'a>(&'a self, user: &'a UserInfo, right: Right<'a>) -> BoxFuture<'a, Result<bool, ReviewFailed>> {
        Box::pin(self.review_access(user, right))
    }
}

async fn in_time<T>(review: impl Future<Output = kube::Result<T>>) -> Result<T, ReviewFailed> {
    match tokio::time::timeout(TIMEOUT, review).await {
        Ok(Ok(review)) => Ok(review),
        // The client's error may quote what was sent, and that holds a token: its status alone is logged.
        Ok(Err(error)) => {
            let code = if let kube::Error::Api(status) = &error { status.code } else { 0 };
            tracing::warn!(code, "a login cannot be reviewed: see the rights of `portcullis rbac --control-plane`");
            Err(ReviewFailed)
        }
        Err(_) => {
            tracing::warn!("a login cannot be reviewed: the API does not answer in time");
            Err(ReviewFailed)
        }
    }
}
