# The coordinator's server in a container. Untested here: no container engine was at hand.
FROM python:3.13-slim
RUN useradd --create-home --uid 10001 sfumato && install -d -o sfumato -g sfumato -m 0700 /srv/sfumato
COPY . /src
RUN pip install --no-cache-dir '/src[server]' && rm -rf /src
USER sfumato
VOLUME /srv/sfumato
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=5)"]
ENTRYPOINT ["sfumato"]
CMD ["serve", "--data", "/srv/sfumato", "--host", "0.0.0.0"]
