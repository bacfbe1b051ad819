//! docker-compose.yml and Dockerfile: judged without Docker, and run without it, too.

mod dockerfile;
mod project;
mod running;
mod shape;
