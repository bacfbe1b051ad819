use super::{Policies, RequestInfo, UserInfo, config};

mod equals_model;
mod hostile;
mod model;
mod table;
