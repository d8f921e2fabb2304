# Image for the machines of a Ray cluster; docs/howto/cluster.md has the token that all of them need.
#   docker build -t jmdp .
#   docker run --network=host -v ~/.ray/auth_token:/root/.ray/auth_token:ro jmdp       # first machine
#   … jmdp ray start --address=FIRST_MACHINE:6379 --block                             # each other
FROM python:3.11-slim
WORKDIR /jmdp
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir ".[ray,gym]" "ray[default]"
ENV RAY_AUTH_MODE=token
RUN python -c "import jmdp; jmdp.compare(jmdp.worlds.inventory().model, 2, 'uniform', seed=0)"
CMD ["ray", "start", "--head", "--port=6379", "--dashboard-host=0.0.0.0", "--block"]
